"""The network of a container: a namespace with nothing but loopback, which the host can open.

The guest opens sockets in its namespace in early boot and hands them to the host (`namespace`).
Through the netlink sockets among them (`netlink`) the host installs rules and routes (`netfilter`,
written as `expressions`), by which every address leads to listeners that the host serves. `owner`
tells which process made a connection, and `socket_memory` how much memory sockets hold.
"""
