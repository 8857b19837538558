"""Layers around an exchange, which an answer passes on its way to the client.

An upstream answers on an exchange. It does not know which layers are around that: `path` puts
together, in one list, those that an answer passes. `client_side` is the last one before the client;
`recorder` keeps what the journal gets, `pacer` leaves the agent time between two answers,
`model_answer` decides on the tool calls of a model, `scrubbed` takes secrets out, and `decoded`
undoes compression for the others. The layers of faults on purpose are in the package `faults`.
"""
