"""Traffic to models: which requests they are, what is asked and answered, and the tool calls in an
answer, which can be decided before an agent sees them. Bytes in, values out: no socket, no gate."""
