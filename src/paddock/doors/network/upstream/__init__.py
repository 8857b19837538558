"""Upstreams: they answer the requests that the gate has let through.

`base` is the interface. `live` asks the real server, `stand_in` a stand-in of the world, `recorded`
gives the answer of an earlier run, and `draft_reads` reads for real and shows captured writes. They
answer on an exchange and know nothing of the layers around it. `transfer` passes an answer on,
`stand_in_stream` has a stand-in take a whole connection, and `scripted` is a fake for tests.
"""
