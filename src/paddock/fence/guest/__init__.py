"""The guest: the program that is pid 1 inside the fence. Standard library only; imports nothing of
Paddock.

These files are loaded two ways: as top-level modules (`import wire`) by the nursery that guests are
forked from, and on the host, where only `wire` and `agreed` are used, as
`paddock.fence.guest.wire`. Start-up time and memory are part of the promise, so heavy modules (re,
enum, json, socket, signal, subprocess, threading) are left out on purpose; their C halves do the
work.
"""
