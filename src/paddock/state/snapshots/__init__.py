"""Snapshots: a saved tree of files plus a manifest that names it."""
