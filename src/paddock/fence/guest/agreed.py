"""Constants that the host and a guest that starts agree on: words, numbers and paths. No code."""

MAX_TERMINALS = 64  # pseudo-terminals of one sandbox; the host has 3,072 for all by default
USER_ID = 1000  # what the agent sees itself as
STAGE = "/run/paddock/stage"  # where root's guests attach the sources for bubblewrap
INFO_FD, GO_FD, PIDNS_FD = 3, 4, 5  # of bubblewrap
PROGRAM_FD = 6  # bubblewrap itself; its libraries have the numbers that follow
SOURCE_FD = 100  # the first of those through which it binds an ordinary user's sources
BROUGHT = "/.paddock/kernel"  # in every sandbox
# The network door writes these two. Until it does, there is no name server, and whom to trust is
# what the host trusts: the second is a link to the third then, so it must be replaced as a whole.
RESOLVER = "/run/resolv.conf"
CERTIFICATES = "/run/ca-certificates.crt"
HOST_CERTIFICATES = "/etc/ssl/host-certificates.crt"
PLACE = b"place"  # comes with the control groups to join
# comes with the listener of the seccomp filter, and with the numbers of the sockets that follow it
READY = b"ready"
# Opened by the guest in its network namespace for the host: name, family, type, protocol. Those
# that a kernel does not have are left out.
SOCKETS = (
    ("route", 16, 3, 0),  # netlink
    ("netfilter", 16, 3, 12),
    ("diag", 16, 3, 4),
    ("tcp4", 2, 1, 0),
    ("udp4", 2, 2, 0),
    ("tcp6", 10, 1, 0),
    ("udp6", 10, 2, 0),
    ("probe", 2, 1, 0),  # the first connection through the door, when it is opened
    ("meter", 16, 3, 4),  # as diag, for a thread that measures
)
