"""Composition: a run, what was recorded of it, and the same past read or lived again."""
