"""Which Paddock this is, and how its optional parts are installed. Name and version are the same as
in pyproject.toml; a package's metadata is slow to look up."""

DISTRIBUTION = "paddock-sandbox"  # on PyPI `paddock` is another project
__version__ = "0.1.0"


def install_command(extra: str) -> str:
    """Return the command that installs what one extra of pyproject.toml names."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
