"""The key with which a run seals what its journal does not show, and by which it knows it again. It
is made from the home's own, so it can go with a run to another machine and opens no other run."""

from __future__ import annotations

import os
from pathlib import Path

from paddock.journal.integrity.keys import secret_bytes
from paddock.journal.secrets.value_hmac import FILE_NAME, ValueHmac, derived
from paddock.model.errors import InvalidInput
from paddock.state.home import Home

CARRIED = "run.key"  # beside a journal that came from elsewhere
_BYTES = 32


def run_key(home: Home, directory: Path, root: str) -> bytes:
    """Return the key of the lineage that begins with the run `root`. A run of this home has the
    home's: a file beside its journal would let whoever put it there open what a later run seals."""
    own = derived(secret_bytes(home.keys, FILE_NAME), f"run {root}".encode())
    if os.path.realpath(os.path.dirname(os.path.abspath(directory))) == os.path.realpath(home.runs):
        return own
    try:
        carried = (directory / CARRIED).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return own
    if len(carried) != _BYTES:
        raise InvalidInput(f"{directory / CARRIED} is no key of a run")
    return carried


def run_keyed(home: Home, run: str, root: str) -> ValueHmac:
    """Return the keyed hash by which a run of the lineage compares what it does not show."""
    return ValueHmac(run_key(home, home.runs / run, root))
