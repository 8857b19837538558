"""WebSockets after the handshake.

`relay` passes messages between client and server, `frames` logs them for the journal, and `replay`
gives a recorded conversation again.
"""
