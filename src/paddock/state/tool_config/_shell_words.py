"""The words of a paddock file, or of git's settings, that could be the path of a file.

Where programs find their files is theirs to decide, so this errs on the side of too many. A text
is split as a shell splits it, text within quotes once more, and at every other mark that can stand
between two paths. What a shell puts in the place of `$PWD`, `$(...)` or a pattern is not known:
each part of a path behind such a place counts as a path of its own, and so does the directory in
front of it.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

_MAX_WORDS = 20_000  # of one file
_MAX_PATH = 4096  # longer ones are no paths to Linux
_MAX_QUOTED = 4  # texts within quotes within quotes
_MAX_SHELL_TEXT = 1 << 16  # far beyond what the word of a command may have
# Of a paddock file, and of a scenario.
_PARTS = ("secrets", "world", "network", "file", "matrix", "files")
_NO_PATHS = frozenset({"service", "also", "to", "as", "allow", "hosts", "private", "passthrough"})
# What parts the words of a command for a shell, or for an interpreter.
_BETWEEN_WORDS = re.compile(r"[\s;|&(){}<>`$!=\"']+")
# Where something else is put in: by a shell, by `printf`, by an f-string.
_EXPANSION = re.compile(r"[$`{%]|~[+-]")
_PATTERN = re.compile(r"[$`{%*?\[]")
_OPTION = re.compile(r"-[A-Za-z](?=[^=-])")  # as in -Cdirectory
_MODULE = re.compile(r"[A-Za-z_][\w.]*(:[A-Za-z_][\w.]*)?")
_VERSION = re.compile(r"[\d.-]+$")  # as in python3.12
# What programs read in a directory without being told its name.
_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
_PACKAGE = ("package.json", "index.js", "index.mjs", "index.cjs", "index.ts")
_PYTHON = ("__main__.py", "__main__.pyc")
_PROJECT = ("pyproject.toml",)
_TASKFILES = ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml")
_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_IMPLIED = {
    "make": _MAKEFILES, "gmake": _MAKEFILES, "python": _PYTHON, "pypy": _PYTHON,
    "npm": _PACKAGE, "npx": _PACKAGE, "yarn": _PACKAGE, "pnpm": _PACKAGE, "bun": _PACKAGE,
    "node": _PACKAGE, "nodejs": _PACKAGE, "deno": ("deno.json", "deno.jsonc", *_PACKAGE),
    "just": ("justfile", "Justfile", ".justfile"), "task": _TASKFILES, "go-task": _TASKFILES,
    "rake": ("Rakefile", "rakefile"), "invoke": ("tasks.py",), "inv": ("tasks.py",),
    "mise": ("mise.toml", ".mise.toml"), "direnv": (".envrc",), "nox": ("noxfile.py",),
    "docker": _COMPOSE, "docker-compose": _COMPOSE, "podman": _COMPOSE,
    "uv": _PROJECT, "poetry": _PROJECT, "pdm": _PROJECT, "hatch": _PROJECT,
    "go": ("go.mod", "main.go"), "cargo": ("Cargo.toml", "build.rs", "src/main.rs"),
}  # fmt: skip
# Programs that tell secrets: their other words are names of secrets, not directories of code.
_TELLERS = frozenset({
    "aws", "az", "bw", "chamber", "doppler", "echo", "gcloud", "gh", "glab", "gopass", "heroku",
    "infisical", "keyring", "kubectl", "lpass", "op", "pass", "printf", "rbw", "secret-tool",
    "security", "vault",
})  # fmt: skip


def words_in(content: Any) -> Iterator[str]:
    """Return every word of a paddock file that could be a path, and every file that a program
    among them reads unasked."""
    return islice(_all_words(content), _MAX_WORDS)


def has_too_many_words(content: Any) -> bool:
    """Return whether `words_in` leaves some out."""
    return next(islice(_all_words(content), _MAX_WORDS, None), None) is not None


def implied_in(content: Any) -> frozenset[str]:
    """Return the names of the files that the programs in a paddock file read unasked, in whatever
    directory they are told to."""
    return frozenset(name for word in words_in(content) for name in _implied_by(word))


def readings(word: str) -> Iterator[str]:
    """Return a word as a path, and as a Python module: `shop.app:main` is in shop/app.py, and a
    package is started by its __main__.py."""
    yield word
    name = word.removeprefix("./").rstrip("/")
    if _MODULE.fullmatch(name):
        module = name.partition(":")[0].replace(".", "/")
        yield f"{module}.py"
        yield f"{module}/__main__.py"
        yield f"{module}/__init__.py"
        if ":" in name:
            yield module


def command_directories(content: Any) -> Iterator[str]:
    """Return every word of the commands of secrets that may be a directory with code in it."""
    secrets = content.get("secrets") if isinstance(content, Mapping) else None
    if not isinstance(secrets, Mapping):
        return
    for secret in secrets.values():
        candidates = list(words_in({"secrets": secret}))
        program = next(_program_of(secret), "")
        is_teller = posixpath.basename(program) in _TELLERS
        for word in candidates:
            is_name = "/" not in word and (is_teller or word == program)
            if not is_name:
                yield word


def _program_of(secret: Any) -> Iterator[str]:
    """Yield the first word of a command, in each of the ways to write one."""
    source = secret.get("from", secret) if isinstance(secret, Mapping) else secret
    command = source.get("command") if isinstance(source, Mapping) else source
    if isinstance(command, str):
        with contextlib.suppress(ValueError):
            yield from shlex.split(command.removeprefix("command:"))[:1]
    elif isinstance(command, list | tuple):
        yield from (word for word in command[:1] if isinstance(word, str))


def _all_words(content: Any) -> Iterator[str]:
    seen = {"", "."}  # what is left between two marks of a shell is no path
    for text in _texts(content):
        for word in _words(text):
            for path in (word, *_implied_by(word)):
                if path not in seen and "\0" not in path:
                    seen.add(path)
                    yield path


def _implied_by(word: str) -> tuple[str, ...]:
    name = posixpath.basename(word)
    return _IMPLIED.get(name) or _IMPLIED.get(_VERSION.sub("", name), ())


def _texts(content: Any) -> Iterator[str]:
    """Yield every text of the parts that name files. What YAML repeats by an alias is looked at
    once."""
    if not isinstance(content, Mapping):
        return
    pending: list[Any] = [content.get(part) for part in _PARTS]
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, Mapping):
                pending += [item for key, item in value.items() if key not in _NO_PATHS]
            else:
                pending += value


def _words(text: str) -> Iterator[str]:
    scheme, colon, rest = text.partition(":")
    if colon and scheme in ("file", "command"):
        text = rest
    has_expansion = _EXPANSION.search(text) is not None
    has_list = has_expansion or "=" in text  # as PATH=./bin:/bin
    shell_words = _shell_words(text, _MAX_QUOTED)
    for word in dict.fromkeys([text, *shell_words, *_BETWEEN_WORDS.split(text)]):
        yield from _parts_of(word, has_expansion=has_expansion)
        if has_list and ":" in word:
            for part in word.split(":"):
                yield from _parts_of(part, has_expansion=has_expansion)


def _parts_of(word: str, *, has_expansion: bool) -> Iterator[str]:
    """Yield a word, the value of an option in it, and what is left of it around an expansion."""
    yield word
    if _OPTION.match(word):
        yield word[2:]
    if len(word) > _MAX_PATH:
        return
    paths = [word]
    if has_expansion:
        paths += [word[at + 1 :] for at, char in enumerate(word) if char == "/"]
        yield from paths[1:]
    for path in paths:
        if match := _PATTERN.search(path):
            yield path[: match.start()].rpartition("/")[0]


def _shell_words(text: str, depth: int) -> Iterator[str]:
    """Yield the words of a text to a shell, and those of a word that is itself a text for one."""
    if len(text) > _MAX_SHELL_TEXT:
        return
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    with contextlib.suppress(ValueError):  # an open quote
        for word in lexer:
            yield word
            if depth and word != text:
                yield from _shell_words(word, depth - 1)
