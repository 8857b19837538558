"""The files of a run, step by step: content-addressed trees, recorded and restored exactly."""
