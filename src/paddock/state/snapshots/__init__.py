"""Snapshots: a saved tree of files plus a manifest that names it.

`store` is the front. `capture` turns the files of a layer into the nodes and objects of a tree,
`manifests` has the small files that make a tree a snapshot, `restore` writes a tree into an empty
directory, and `format_1` reads the trees of earlier versions.
"""
