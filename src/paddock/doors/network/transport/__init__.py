"""Connections as bytes.

`conn` is a non-blocking socket, plain or TLS, with its time limits in `timeouts`. `dial` opens
connections to servers whose addresses were checked by `addresses`; `pool` keeps them for the next
request.
"""
