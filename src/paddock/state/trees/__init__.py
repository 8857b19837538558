"""The files of a run at each step: content-addressed trees, recorded and restored exactly.

Recording: a `recorder` looks at the directories of a sandbox before each step. A `scan` finds what
has changed since the last one, `nodes` are the format in which it is stored, and files above 64 MiB
are stored in parts (`large_files`). Restoring: `_plan` compares a stored tree with what a scan saw
and lists operations, `held_files` takes out those that would change a file which a process has
open, and `restore` carries out the rest with `node_files`. `store` is the front, `reader` reads
trees, `comparison` lists what differs between two of them. Snapshots use the same format of trees.
"""
