"""Looks at a project: its packages, scripts, variables and the services that they are for.

`paddock init` writes a first paddock file from it (`inspection`, then `paddock_file`), and
`paddock run` names the variables that an agent reads and does not get (`unpassed_variables`).
"""
