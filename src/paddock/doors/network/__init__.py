"""The network door: every connection out of a sandbox, as actions that cross the gate.

The main path is at the top of the package, in this order:

    door          takes connections, DNS queries and attempts at anything else
    connection    finds out where one connection leads, and what is spoken on it
    request       makes a request an action
    decision      has the gate decide on it, and says what the gate may do with it
    execution     has an upstream answer, and makes failures answers
    answer        gives the answers that are Paddock's own

`exchange` has the values and protocols that they share: a request comes as an Exchange, the same
for HTTP/1 and HTTP/2, and is answered on it. `context` has what all connections of a sandbox share.
`passthrough` serves connections that are not HTTP.

An upstream (`upstream/`) answers a request: the real server, a stand-in, or the record of an
earlier run. The answer passes layers (`layers/`, `faults/`) on its way to the client;
`layers/path.py` has the list. The other packages are the parts that these use: `http1/`, `http2/`
and `websocket/` speak protocols, `transport/` and `tls/` move bytes, `names/` answers DNS queries,
`secrets/` holds values, `bodies/` measures and captures bodies, `drafts/` sends drafts, and
`inside_api/` serves programs that use `paddock.inside`.
"""
