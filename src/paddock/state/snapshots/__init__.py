"""Snapshots: a saved tree of files plus a manifest that names it.

`store` is the front. `_capture` turns the files of a layer into the nodes and objects of a tree,
`_manifests` has the small files that make a tree a snapshot, `_restore` writes a tree into an empty
directory, and `_format_1` reads the trees of earlier versions.
"""
