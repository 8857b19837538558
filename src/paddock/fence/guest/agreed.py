"""What the host and a guest that starts agree on: words, numbers and one path. No code."""

USER_ID = 1000  # what the agent sees itself as
STAGE = "/run/paddock/stage"  # where root's guests attach the sources for bubblewrap
INFO_FD, GO_FD, PIDNS_FD = 3, 4, 5  # of bubblewrap
SOURCE_FD = 100  # the first of those through which it binds an ordinary user's sources
BROUGHT = "/.paddock/kernel"  # in every sandbox
PLACE = b"place"  # comes with the control groups to join
READY = b"ready"  # comes with the listener of the seccomp filter
