"""TLS on both sides of the door.

`authority` is the certificate authority of one run, `credentials` makes one in advance, and
`sandbox_trust` has the files and variables that make programs inside trust it. `client_hello` reads
which server a client asks for. `server_trust` verifies real servers.
"""
