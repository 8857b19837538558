"""Paths of resources: one spelling for each, which part is an id, what is a collection."""

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
_ROUNDS = 4  # of decoding: who encodes more often than that is not read at all


def canonical(path: str) -> str:
    """`/tickets//7.json/` and `/tickets/7` are one resource. An encoded slash stays part of a
    name."""
    kept: list[str] = []
    for part in path[:MAX_PATH].split("/"):
        part = unquote(part)
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    if kept and kept[-1].endswith(".json") and kept[-1] != ".json":
        kept[-1] = kept[-1].removesuffix(".json")
    return "/" + "/".join(quote(part, safe=_SAFE) for part in kept)


def loosest(path: str) -> str:
    """As the most forgiving server might read it: what is compared with rules that tighten."""
    text = path[:MAX_PATH]
    for _ in range(_ROUNDS):
        text = unquote(text)
    text = re.sub(r";[^/]*", "", text.replace("\\", "/")).lower()
    return unquote(canonical(text))


def parts_of(path: str) -> list[str]:
    return [unquote(part) for part in path.split("/") if part]


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def last(path: str) -> str:
    return unquote(path.rpartition("/")[2])


def ancestors(path: str) -> list[str]:
    """From the longest to the shortest, without the path itself."""
    found = []
    while (path := parent(path)) != "/":
        found.append(path)
    return found


def is_id(part: str) -> bool:
    """Whether a part of a path looks like the id of something."""
    return len(part) <= 200 and _ID.fullmatch(part) is not None


def template(path: str) -> str:
    """`/tickets/7/comments` is `/tickets/{id}/comments`."""
    return "/" + "/".join("{id}" if is_id(part) else part for part in parts_of(path))


def has_id(path: str) -> bool:
    return any(is_id(part) for part in parts_of(path))


def is_plural(word: str) -> bool:
    word = word.lower()
    return word in _PLURAL or (word.endswith("s") and not _SINGULAR.search(word))


def singular(word: str) -> str:
    """Good enough to find `ticket` for `tickets` and `company` for `companies`."""
    if not is_plural(word) or word in _PLURAL:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if re.search(r"(?:ss|x|ch|sh)es$", word):
        return word[:-2]
    return word[:-1]
