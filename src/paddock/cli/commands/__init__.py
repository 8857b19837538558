"""The commands: one module for each, named like it, imported only when it is called.

A module has `make_parser()`, which the help and the completion use too, and `main(arguments)`,
which returns the exit code. A subcommand with much code of its own has a module of its own.
"""
