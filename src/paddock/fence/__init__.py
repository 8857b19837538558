"""The fence: the isolation boundary that an agent runs in, and the guest that is pid 1 inside.

`driver` has the contract: a `Driver` starts a `Machine`, and doors use nothing else of a fence.
`registry` lists the drivers; `container` is one, `fake` isolates nothing and is for tests, and
`self_check` tries the contract on any of them. What the host asks of the inside (programs, files,
watches) goes as frames through `channel` to the guest (`guest`), which is the same over every
driver. `processes` reads what the host can see of programs inside, `network` is the way into a
machine's network, and `event_logs` holds what a driver observed.
"""
