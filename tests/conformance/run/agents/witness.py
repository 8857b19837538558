"""Writes down what the files of the working directory are as the agent itself reads them at its
end, in `witness.json`. Databases are left out: closing one still changes it."""

import atexit
import hashlib
import json
from pathlib import Path

NAME = "witness.json"


def _testify():
    found = (path for path in sorted(Path().rglob("*")) if path.is_file() and path.name != NAME)
    digests = {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in found
        if ".db" not in path.name and "__pycache__" not in path.parts
    }
    Path(NAME).write_text(json.dumps(digests))


atexit.register(_testify)
