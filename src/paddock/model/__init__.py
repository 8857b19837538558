"""The words of Paddock as frozen values: standard library only, no I/O, imports no other room."""
