"""The writable layer of a sandbox: made, forked, measured and removed.

`layers` has the two kinds: subvolumes of a btrfs pool (`btrfs`) and plain directories.
`hidden_files` makes the layer of whiteouts that takes names away from a mount.
"""
