"""The machine door: commands, files, code and terminals of a sandbox, for Python callers."""
