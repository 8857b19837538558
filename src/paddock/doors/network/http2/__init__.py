"""HTTP/2 on both sides of the door.

`link` is one connection, the same for both sides: it feeds the h2 library and owns the `streams`.
`meter` counts frames before the library sees them, `outflow` writes, `heads` translates headers.
`server` makes each stream an exchange; `client` sends many requests over one connection.
"""
