"""The host's side of `paddock.inside`, the module that programs in a sandbox may import.

`calls` serves what they report, `state` is what a run gives them to begin with, `environment` has
the variables that seed their randomness and their clock. The files that are copied into a sandbox
are in the directory `inside`.
"""
