"""Runs: an agent at work under an order, what is recorded of it, and readings of that record.

An `Order` (`order`) names the command, the project and the policy. `RunSession` (`session`) finds
what the command needs of the host (`surroundings/`), makes the sandbox, opens its gate and starts
the agent; `StateRecorder` records the files and the world at each step. What is different about a
replay or a fork is a `RunMode` (`replay/`), which answers actions from a recorded run with the help
of `matching/`.

Everything else reads the journal that a run left: its summary (`report`), its steps (`history`),
its changed files (`changes`, `patch`, `commits`), a comparison with other runs (`compare/`), and
the checks of test scenarios (`scenarios/`). `garbage`, `removal` and `disk_use` look after the disk
space that runs take.
"""
