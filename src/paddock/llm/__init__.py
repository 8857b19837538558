"""Wire formats of language models: requests, answers and the tool calls in them.

One package for each format, both directions: `traffic` reads requests and answers that pass by,
`tool_calls` finds the tool calls in an answer so that each can be decided on before the agent sees
it, and `server` is the side of the server, which the scripted model of a world uses.

`formats` recognises a request and names its format. `AnswerReader` collects what the journal
records of an answer; `AnswerEditor` passes an answer on, holds each tool call until there is a
verdict, and takes refused calls out. Both read streams through an `EventSource`: server-sent events
(`sse`) or AWS's binary event stream (`bedrock.event_stream`).

Everything here is bytes in and values out: no socket, no gate, no clock.
"""
