"""Replay and fork: a recorded run executed again, to its end or to a step where it goes live.

`RecordedRun` reads the signed records of a run once. `replay` and `fork` plan the new run and start
a `RunSession` with a `RunMode` of their own. The mode's `ReplaySession` implements the interface
that the gate asks first (`RecordedAnswers`): it lets a `Matcher` find the recorded step of each
action, waits until it is that step's turn, and returns the recorded decision and outcome. At the
step of a fork the files and the world are restored, and from then on it returns nothing, so that
the gate decides as in any run.
"""
