"""The pen: isolation for a stand-in that is a process.

`launch` starts the program in bubblewrap with a network namespace that has only loopback, a view of
a few files of the host (`mounts`), and a seccomp filter (`filter`). The first program inside is
`warden`, which sets the limits, starts the real program and opens connections to it; it talks to
the host over one socket (`sockets`). A `Pen` starts the program at the first connection and again
after it has died. `app_server` runs inside and serves somebody's ASGI application.
"""
