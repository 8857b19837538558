"""The command line. `main` finds the command in `command_list` and imports its module.

- `commands/` has one module for each command, imported only when it is called;
- `render/` turns values into lines and tables for people;
- `project/` looks at a user's project, for `init` and `run`;
- here is what they share: the parser and its usual arguments, output, exit codes, finding a run.
"""
