"""The changes that an agent made in a tree, and writing chosen ones back.

`overlay` finds the changes of a sandbox's layer and `tree_scan` those of a directory whose start is
known; `write_back` decides which of them may be written into the caller's directory, and
`target_directory` writes them. `patch_format` shows them as git does.

One rule for what is listed, whichever way it was found:
- every new file, link and directory is listed, also those inside a new directory;
- a deletion is listed once, at the highest path that is gone: a directory that is gone is one
  change, and what was inside it is not listed;
- a name that has become something else (a file now a directory) is one `modified` of its new type,
  and what is inside a directory that came this way is `added`;
- a directory is `modified` only if its own mode is other than before.
Times, owners and attributes are not changes, and neither is the tree's own top directory.
Changes come in the order of a walk: a directory before what is in it.
"""
