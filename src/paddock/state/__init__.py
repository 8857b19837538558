"""The state that outlives a call. Nothing here knows the fence.

`home` is the directory of one user with everything in it: sandboxes and their layers (`layers`),
the files of runs at their steps (`trees`), `snapshots`, `templates`, volumes, keys and journals.
`files` reads what an agent wrote, safely. `changes` finds what an agent changed in a directory and
writes it back; `tool_config` holds back the files that tools of the user obey, and `agent_git`
brings commits over as a branch. `revocations` and `trusted_files` are what the user has decided.
"""
