"""Matching: which recorded step an action of a replayed agent is. Pure: no I/O, clock or waiting.

A proposed action and a recorded step are both turned into an `ActionView` (`view`), which has the
parts that are compared. `Candidates` finds equal steps, `compare` says where two views differ, and
`rules`, `timestamps` and `volatile` say which differences are allowed. `sequence` keeps the order:
steps that were in flight together may come in any order, all others only in theirs. `Matcher` puts
these together and answers each proposal with a match, a wait or a mismatch.
"""
