"""Values as people read them: lines, tables, the live screen of a run, the view of `paddock step`.

Agents and servers chose much of the text: each value goes through `model.printable.printable`,
stands on one line and has a bounded length, so that none can pass for a line of ours or steer a
terminal.
"""
