"""Which files of a project are secrets, told by their names, and the search for them.

The search is bounded, and what it could not finish is refused: a secret that was not looked for
would be a secret that the agent reads.
"""

from __future__ import annotations

import os
import re
from itertools import islice

from paddock.model.errors import InvalidInput
from paddock.run.surroundings.host import read_text

MAX_ENTRIES = 300_000
MAX_DEPTH = 100
_MAX_LOOKED_AT_BYTES = 1 << 20
_MAX_MODULES = 1000
# Packages and objects, not the project's own files: certificates and examples of others.
_NOT_SEARCHED = frozenset({"node_modules", "site-packages", "__pycache__"})
_GIT = ".git"
_NAMES = frozenset({
    ".env", ".envrc", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".boto",
    ".git-credentials", ".vault-token", ".dockercfg", ".htpasswd", ".s3cfg", ".databrickscfg",
    ".aws", ".ssh", ".gnupg", ".kube", ".azure", ".gcloud", ".paddock", ".password-store",
    "credentials.json", "token.json", "secrets.json", "secrets.yaml", "secrets.yml",
    "secrets.toml", "kubeconfig", "terraform.tfstate", "terraform.tfstate.backup",
    "application_default_credentials.json",
})  # fmt: skip
_BEGINNINGS = (".env.", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
_ENDINGS = (".env", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".tfvars")
_OF_ACCOUNTS = ("service-account", "service_account", "client_secret")  # in names of JSON files
_EXAMPLES = (".example", ".sample", ".template", ".dist", ".defaults", ".pub")
# Public or needed, unless this is in them.
_IF_HOLDING = {".pem": b"PRIVATE KEY", ".yarnrc.yml": b"npmAuth"}
_LOOKED_INTO = tuple(_IF_HOLDING)
_IN_A_PLACE = (".docker/config.json", ".config/gcloud", ".config/gh")
# A file whose name neither begins nor ends so is none of these, as most files of a project are.
_TELLING = (*_ENDINGS, *_LOOKED_INTO, ".json", *(place.rpartition("/")[2] for place in _IN_A_PLACE))
_VENV_NAMES = (".env",)  # some call a virtual environment so
_CREDENTIALS = re.compile(
    r"://[^/\s@]*:[^/\s@]+@|://[^/\s:@]{20,}@|extraheader|(?:password|token)\s*=|\[credential", re.I
)


def is_secret_name(name: str) -> bool:
    """Whether a file or directory of this name is not for an agent, whatever is in it."""
    name = name.lower()
    if name.endswith(_EXAMPLES):
        return False
    if name in _NAMES or name.startswith(_BEGINNINGS) or name.endswith(_ENDINGS):
        return True
    return name.endswith(".json") and any(word in name for word in _OF_ACCOUNTS)


def may_tell(name: str) -> bool:
    """Whether the name of a file is a reason to look at it more closely."""
    name = name.lower()
    return name in _NAMES or name.endswith(_TELLING) or name.startswith(_BEGINNINGS)


def secret_files(root: str, *, is_only_top: bool = False) -> tuple[str, ...]:
    """The paths in a directory that an agent must not see, relative to it. Raises
    InvalidInput when there is more than can be looked through."""
    found: list[str] = []
    left, waiting = MAX_ENTRIES, [("", 0)]
    while waiting:
        below, level = waiting.pop()
        for entry in _entries(os.path.join(root, below)):
            left -= 1
            if left < 0 or level >= MAX_DEPTH:
                raise _too_much(root, os.path.join(below, entry.name))
            if entry.is_file(follow_symlinks=False) and not may_tell(entry.name):
                continue
            path = f"{below}/{entry.name}" if below else entry.name
            if _is_hidden(entry, path):
                found.append(path)
            elif entry.name == _GIT:
                found += _git_files(root, path)
            elif not is_only_top and _is_searched(entry):
                waiting.append((path, level + 1))
    return tuple(sorted(found))


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(islice(entries, MAX_ENTRIES + 1))
    except PermissionError:
        return []  # the agent stands for us: it cannot read it either
    except (FileNotFoundError, NotADirectoryError):
        return []  # gone meanwhile


def _is_hidden(entry: os.DirEntry[str], path: str) -> bool:
    if is_secret_name(entry.name):
        return not (entry.name in _VENV_NAMES and _is_venv(entry))
    if path.endswith(_IN_A_PLACE):
        return True
    if entry.is_dir(follow_symlinks=False) or entry.is_symlink():
        return False  # what a link leads to is decided on where it is
    if not entry.is_file(follow_symlinks=False):
        return True  # a socket, a pipe or a device: a way to another process
    name = entry.name.lower()
    return name.endswith(_LOOKED_INTO) and any(
        _holds(entry.path, text) for end, text in _IF_HOLDING.items() if name.endswith(end)
    )


def _holds(path: str, text: bytes) -> bool:
    """What cannot be looked through counts as if it did."""
    try:
        # It may have become a pipe or a link meanwhile.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            content = file.read(_MAX_LOOKED_AT_BYTES + 1)
    except OSError:
        return True
    return len(content) > _MAX_LOOKED_AT_BYTES or text in content


def _is_searched(entry: os.DirEntry[str]) -> bool:
    if not entry.is_dir(follow_symlinks=False) or entry.name in _NOT_SEARCHED:
        return False
    return not _is_venv(entry)


def _is_venv(entry: os.DirEntry[str]) -> bool:
    return os.path.isfile(os.path.join(entry.path, "pyvenv.cfg"))


def _git_files(root: str, git: str) -> list[str]:
    """Of a repository only settings that hold credentials; its objects are what they are."""
    places = [git, *(f"{git}/modules/{name}" for name in _modules(os.path.join(root, git)))]
    files = [f"{place}/{name}" for place in places for name in ("config", "config.worktree")]
    return [file for file in files if _holds_credentials(os.path.join(root, file))]


def _modules(git: str) -> list[str]:
    with_config: list[str] = []
    top = os.path.join(git, "modules")
    for number, (directory, names, files) in enumerate(os.walk(top)):
        if number > _MAX_MODULES:
            raise _too_much(git, directory)
        if "config" in files:
            with_config.append(os.path.relpath(directory, top))
            names[:] = [name for name in names if name == "modules"]
    return with_config


def _holds_credentials(path: str) -> bool:
    if not os.path.lexists(path):
        return False
    text = read_text(path)
    return text is None or _CREDENTIALS.search(text) is not None


def _too_much(root: str, path: str) -> InvalidInput:
    return InvalidInput(
        f"{root} has more than can be searched for secrets ({MAX_ENTRIES} entries, "
        f"{MAX_DEPTH} levels; got to {path[:200]})",
        hint="run from the directory of the agent itself, not from one that holds everything",
    )
