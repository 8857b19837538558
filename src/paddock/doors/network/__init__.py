"""The network door: every connection out of a sandbox, as actions that cross the gate."""
