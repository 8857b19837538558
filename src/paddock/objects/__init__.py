"""The object store: bytes that are named by their SHA-256 and checked whenever they are read.

Everything that Paddock stores by content lies here, in one of two shapes:

- `store.ObjectStore`: one file for each object, in a directory of its own. Runs store the states of
  their files there, snapshots their trees and contents, journals their large values.
- `pack.Pack`: many small objects as the lines of one file. Journals store the messages of
  conversations there.

What an object means (a directory, a part of a file, a value of a record) is known to its writer
only. `store_lock` lets many add to a store and one alone remove from it; `file_bytes` copies and
hashes the bytes of open files; `line_file` reads files of lines in bounded batches.
"""
