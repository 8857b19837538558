"""Trees of files that an agent wrote and may still be changing: entered, walked, copied, removed.

`descent` enters directories by descriptors and follows no link; `tree_walk` visits or removes what
is below one; `tree_copy` copies and measures a layer; `file_copy` moves bytes between open files.
"""
