"""The variables of a project's .env files: their names, and whether each is a secret. A value is
looked at here and goes no further.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from paddock.run.surroundings.host import read_text

MAX_VARIABLES = 100
_FILES = (".env", ".env.local", ".env.example", ".env.sample", ".env.template")
_LINE = re.compile(
    r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]{0,79})[ \t]*=[ \t]*([^\r\n]*)", re.MULTILINE
)
_SECRET_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|DSN)S?(?:$|_)|(?:^|_)PAT$", re.IGNORECASE
)
_CREDENTIALS = re.compile(r"://[^\s/@:]{0,200}:[^\s/@]{1,400}@")  # postgres://user:pass@host/db
_TOKEN = re.compile(
    r"(?:sk|rk|pk)[-_]|gh[opsur]_|github_pat_|glpat-|xox[a-z]-|xapp-|hf_|gsk_|AKIA|ASIA|AIza|SG\."
    r"|ya29\.|eyJ|-----BEGIN"
)
# A long word of letters and digits is random: nobody names a thing like that.
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_=+-]{24,}")


class Variable(msgspec.Struct, frozen=True):
    """A variable that a .env file sets."""

    name: str
    file: str
    is_secret: bool


def variables_in(directory: Path) -> tuple[Variable, ...]:
    """Return the variables of all .env files, each with the first file that has it. One that is a
    secret in any of them is a secret."""
    variables: dict[str, Variable] = {}
    for file in _FILES:
        for name, value in _LINE.findall(read_text(os.path.join(directory, file)) or ""):
            first = variables.get(name)
            is_secret = is_secret_name(name) or is_secret_value(value)
            if first is None:
                variables[name] = Variable(name, file, is_secret)
            elif is_secret:
                variables[name] = Variable(name, first.file, True)
    return tuple(variables.values())[:MAX_VARIABLES]


def is_secret_name(name: str) -> bool:
    """Return whether a variable of this name usually holds a secret."""
    return bool(_SECRET_NAME.search(name))


def is_secret_value(value: str) -> bool:
    """Return whether a value has credentials in it, or looks like a token."""
    text = value.strip().strip("\"'")
    return bool(_CREDENTIALS.search(text) or _TOKEN.match(text) or _RANDOM.fullmatch(text))
