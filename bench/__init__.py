"""Benchmarks of Paddock beside its peers. `scripts/bench` runs them; no test asserts on a time.

`main` has the list of measurements. Each one is a function that takes the `Rig` (scratch directory,
sample counts, peers) and returns a list of `Figure`; `report` turns the figures into a table or
JSON. A measurement and its peer are timed in turns, in one run, so that both meet the same machine.
"""
