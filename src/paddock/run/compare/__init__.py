"""Comparison of runs: which steps correspond, where they diverge first, and how the runs ended.

`trail` reads each run into `ComparedStep`s, `alignment` finds the steps that correspond, `pairs`
says what differs in each pair, `ends` compares files and worlds at the end, and `comparison` puts
it together for two or more runs. `page` and `summary_text` render the result.
"""
