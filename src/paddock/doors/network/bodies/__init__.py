"""Bodies of messages: how they are measured, bounded in memory and captured for the journal.

`memory` bounds what request bodies take while rules read them, `capture` keeps what the journal
records of a body that streams by, `digests` and `stable_digests` make what two bodies are compared
by in a replay.
"""
