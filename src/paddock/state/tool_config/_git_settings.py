"""The settings of git that could name a file: every value that could be a path or a command.

Which settings start programs is git's to decide, and users name more of them (aliases, drivers,
filters). So all values count, but for those that never name a file. Settings of a working tree lie
in its repository, wherever a `.git` file says that is, in the files that these include, and in the
user's own files.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

MAX_FILE_BYTES = 1 << 20
_MAX_FILES = 100
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"(?:[^"\\\n]|\\.)*")?\s*\]')
_NAME = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(=?)[ \t]*")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}
# Settings that never name a file, one by one: names of people, branches and servers.
_PERSON = ("name", "email")
_NO_FILES = {
    "user": _PERSON,
    "author": _PERSON,
    "committer": _PERSON,
    "init": ("defaultbranch", "defaultobjectformat", "defaultrefformat"),
    "branch": ("remote", "merge", "pushremote", "rebase", "description", "autosetupmerge",
               "autosetuprebase", "sort", "vscode-merge-base", "gh-merge-base"),
    "url": ("insteadof", "pushinsteadof"),
    "remote": ("url", "pushurl", "fetch", "push"),
    "svn-remote": ("url", "pushurl", "fetch", "branches", "tags"),
    "submodule": ("url",),
}  # fmt: skip
_COLOURS = "color"  # nothing but colours and switches
_HELPER = "::"  # a URL for a program: ext::sh -c ...


def values_for(worktree: str) -> list[str]:
    """Return the values of the settings that hold for a directory with a `.git` in it."""
    values: list[str] = []
    waiting = _files_of_user()
    for repository in repositories_of(worktree):
        waiting += [os.path.join(repository, name) for name in ("config", "config.worktree")]
    seen: set[str] = set()
    while waiting and len(seen) < _MAX_FILES:
        file = os.path.realpath(waiting.pop())
        text = None if file in seen else _read(file)
        seen.add(file)
        for section, name, value in parse(text or ""):
            if section in ("include", "includeif") and name == "path":
                waiting.append(os.path.join(os.path.dirname(file), os.path.expanduser(value)))
                values.append(waiting[-1])
            elif _may_name_a_file(section, name, value):
                values.append(value)
    return values


def _may_name_a_file(section: str, name: str, value: str) -> bool:
    if section == _COLOURS:
        return False
    return name not in _NO_FILES.get(section, ()) or _HELPER in value


def git_root(directory: str) -> str | None:
    """Return the top of the working tree that a directory lies in; None outside of all."""
    at = os.path.abspath(directory)
    while not os.path.lexists(os.path.join(at, ".git")):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    return at


def object_format(worktree: str) -> str:
    """Return by which hash a repository names its objects: `sha1` or `sha256`."""
    for repository in repositories_of(worktree):
        for section, name, value in parse(_read(os.path.join(repository, "config")) or ""):
            if (section, name, value.lower()) == ("extensions", "objectformat", "sha256"):
                return "sha256"
    return "sha1"


def parse(text: str) -> Iterator[tuple[str, str, str]]:
    """Return section, name and value of each setting, as git reads them: a setting may follow its
    section on the same line, and values may be quoted, commented and continued."""
    section, at = "", 0
    while at < len(text):
        if match := _SECTION.match(text, at):
            section, at = match[1].lower().partition(".")[0], match.end()
        elif match := _NAME.match(text, at):
            value, at = _value(text, match.end())
            if match[2]:
                yield section, match[1].lower(), value
        else:  # a comment, an empty line, or what git would not read
            end = text.find("\n", at)
            at = len(text) if end < 0 else end + 1


def _value(text: str, at: int) -> tuple[str, int]:
    """Return a value and where its line ends."""
    chars: list[str] = []
    is_quoted = False
    while at < len(text) and text[at] != "\n":
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            at += 1
            following = text[at]
            if following != "\n":  # a line that goes on in the next
                chars.append(_ESCAPES.get(following, following))
        elif char == '"':
            is_quoted = not is_quoted
        elif char in "#;" and not is_quoted:
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            break
        else:
            chars.append(char)
        at += 1
    return "".join(chars).strip(), at + 1


def repositories_of(worktree: str) -> set[str]:
    """Return the repository of a working tree, and the one that it belongs to (`commondir`)."""
    repository = os.path.join(worktree, ".git")
    link = _read(repository)
    if link is not None and link.startswith("gitdir:"):
        repository = os.path.join(worktree, link.removeprefix("gitdir:").strip())
    common = (_read(os.path.join(repository, "commondir")) or ".").strip()
    return {repository, os.path.normpath(os.path.join(repository, common))}


def _files_of_user() -> list[str]:
    home = os.path.expanduser("~")
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    named = os.environ.get("GIT_CONFIG_GLOBAL")
    own = [named] if named else [f"{home}/.gitconfig", f"{settings}/git/config"]
    return [*own, "/etc/gitconfig"]


def _read(path: str) -> str | None:
    """Return the text of a small regular file; None if it is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return os.read(fd, MAX_FILE_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    finally:
        os.close(fd)
