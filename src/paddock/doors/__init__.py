"""The doors turn what callers and agents do into Actions: programs and files (`machine`), the
network (`network`), Python functions as tools (`tools`).

A door builds the Action, has the gate decide on it, and brings along the functions that carry it
out. `terms` reads what a caller asks for, and `trust` whether a paddock file may ask it of the
host.
"""
