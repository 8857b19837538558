"""Which Paddock this is. The same as in pyproject.toml; a package's metadata is slow to look up."""

__version__ = "0.1.0"
