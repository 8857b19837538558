"""The programs of a machine as the host sees them, where they are processes of this host.

Every function here starts from the pid that the host knows the guest by, walks down from there and
reads /proc: `quiescence` tells whether anything is at work, `open_files` what is held open,
`connections` whether a program still holds its end of a connection, and `programs` which files an
exec would run. What is read is evidence about hostile programs; each module says how sure it is.
"""
