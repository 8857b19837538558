"""Names inside a sandbox, and what they stand for.

`table` gives each allowed name an address of 198.18.0.0/15. `dns` answers DNS queries out of the
table; `dns_packets` reads and writes them. `resolver` looks real names up, for who dials.
"""
