"""The paddock file: what an agent may do. Text in, values out; no I/O."""
