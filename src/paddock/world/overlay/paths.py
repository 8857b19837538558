"""Paths of resources: their canonical form, and which parts are ids or collections."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

MAX_PATH = 4096
_SAFE = "~!$&'()*+,=:@"
_ID = re.compile(
    r"\d+"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|[0-9a-f]{12,}"
    r"|[A-Z][A-Z0-9]*-\d+"
    r"|(?:[a-z]{1,12}_)?shadow_\w+"
    r"|[a-z]{1,12}_(?=\w*[\dA-Z])\w{3,}"
    r"|(?=[A-Z]*\d)[A-Z0-9]{8,}"
    r"|(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}"
)
_SINGULAR = re.compile(r"(?:ss|us|is|ics|news|series)$")
_PLURAL = frozenset({"people", "children", "media", "staff"})
_DECODINGS = 4  # a path that is percent-encoded more often is not decoded fully


def canonical(path: str) -> str:
    """Return one form for all paths of a resource: `/tickets//7.json/` becomes `/tickets/7`. An
    encoded slash stays part of its name."""
    parts: list[str] = []
    for part in path[:MAX_PATH].split("/"):
        part = unquote(part)
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    if parts and parts[-1].endswith(".json") and parts[-1] != ".json":
        parts[-1] = parts[-1].removesuffix(".json")
    return "/" + "/".join(quote(part, safe=_SAFE) for part in parts)


def most_lenient(path: str) -> str:
    """Return the path as the most lenient server might read it, to match it with strict rules."""
    text = path[:MAX_PATH]
    for _ in range(_DECODINGS):
        text = unquote(text)
    text = re.sub(r";[^/]*", "", text.replace("\\", "/")).lower()
    return unquote(canonical(text))


def split_path(path: str) -> list[str]:
    return [unquote(part) for part in path.split("/") if part]


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def last_part(path: str) -> str:
    return unquote(path.rpartition("/")[2])


def ancestors(path: str) -> list[str]:
    """Return the paths above this one, the longest first."""
    paths = []
    while (path := parent(path)) != "/":
        paths.append(path)
    return paths


def is_id(part: str) -> bool:
    """Return whether a part of a path looks like an id."""
    return len(part) <= 200 and _ID.fullmatch(part) is not None


def template(path: str) -> str:
    """Return `/tickets/{id}/comments` for `/tickets/7/comments`."""
    return "/" + "/".join("{id}" if is_id(part) else part for part in split_path(path))


def has_id(path: str) -> bool:
    return any(is_id(part) for part in split_path(path))


def is_plural(word: str) -> bool:
    word = word.lower()
    return word in _PLURAL or (word.endswith("s") and not _SINGULAR.search(word))


def singular(word: str) -> str:
    """Return `ticket` for `tickets` and `company` for `companies`. A heuristic."""
    if not is_plural(word) or word in _PLURAL:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if re.search(r"(?:ss|x|ch|sh)es$", word):
        return word[:-2]
    return word[:-1]
