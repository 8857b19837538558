"""The conversation in a request, reduced to what the journal keeps of it."""

from __future__ import annotations

from typing import Any

import msgspec

from paddock.llm.json_text import items, mapping

_IMAGES = frozenset({"image", "image_url", "input_image"})
_ENOUGH = 64 << 10  # characters that are joined before they are cut to what is kept


class Prompt(msgspec.Struct, frozen=True):
    """The conversation of a request. `whole` is for the digest; the texts are for people."""

    whole: dict[str, Any]
    system: str
    last_user: str
    messages: int
    images: int


def text_in(content: Any) -> str:
    """Return the text of a message: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    found: list[str] = []
    size = 0
    for part in items(content):
        text = part if isinstance(part, str) else mapping(part).get("text")
        if isinstance(text, str) and size < _ENOUGH:
            found.append(text[:_ENOUGH])
            size += len(text)
    return "\n".join(found)


def _is_image(kind: Any) -> bool:
    return isinstance(kind, str) and kind in _IMAGES


def tally(content: Any) -> int:
    """Count the images in a message, in the results of tools too."""
    found = 0
    level = items(content)
    for _ in range(4):  # an image lies at most in a result in a message
        found += sum(_is_image(mapping(part).get("type")) for part in level)
        level = [below for part in level for below in items(mapping(part).get("content"))]
    return found
