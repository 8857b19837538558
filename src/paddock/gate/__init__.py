"""The one crossing: only from here does an effect get out.

A door makes an Action and calls `gate.Gate.cross` with its handlers. The gate reserves amounts of
limits (`ledger`), has the policy decide, writes down what is proposed (`record_writer`), asks a
person where that is wanted (`approvals`), carries the decision out (`execution`, with `faults`),
stores writes that are not sent (`drafts`), and settles. What cannot be recorded does not happen,
and what fails on the way is a refusal. During a replay `recorded_answers` is asked first, and
`recorded_execution` gives the recorded outcome. `run_gate` makes the gate of a run; `store` is the
SQLite file that the gates of all processes share.
"""
