"""Secrets are replaced on the way into a journal: `{{secret:NAME}}` stands where the value stood.

Found are the value as it is, escaped as JSON, percent-encoded in whole or in part, in hex, and in
base64 at any alignment; in a stream also when it comes in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from paddock.journal.mask_shapes import Shape, shapes
from paddock.model.errors import InvalidInput

MIN_SECRET = 6  # shorter ones are found in honest text everywhere, also by who looks for them
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_PIECE = 64 << 10  # characters
_Span = tuple[int, int, str]


class _Form:
    """One spelling of one secret, compiled."""

    def __init__(self, name: str, shape: Shape) -> None:
        self.placeholder = f"{{{{secret:{name}}}}}"
        self.core = re.compile(shape.core)
        self.whole = re.compile(shape.pattern)
        self.may_go_on = bool(shape.after)
        self.max_length = shape.max_length
        self._shape = shape

    @cached_property
    def tail(self) -> re.Pattern[str]:
        return re.compile(self._shape.tail)


class Masker:
    """Knows the secrets of a run, by name, and takes them out of text and of JSON values."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        self._forms = [
            _Form(name, shape)
            for name, value in sorted((secrets or {}).items(), key=lambda item: -len(item[1]))
            for shape in _checked_shapes(name, value)
        ]
        self._searches = [form.core.search for form in self._forms]

    def __bool__(self) -> bool:
        return bool(self._forms)

    def is_clean(self, text: str) -> bool:
        """Whether no secret shows in the text. JSON text is clean only if all its values are."""
        return all(search(text) is None for search in self._searches)

    def is_clean_long(self, text: str) -> bool:
        """The same, for a long text, in pieces: no other thread runs during a search."""
        longest = max((form.max_length for form in self._forms), default=0)
        size = _PIECE + longest  # a secret that begins in a piece ends in what is looked at
        starts = range(0, max(len(text), 1), _PIECE)
        return all(self.is_clean(text[start : start + size]) for start in starts)

    def mask_text(self, text: str) -> str:
        return text if self.is_clean(text) else _replaced(text, _spans(self._forms, text))

    def mask(self, value: Any) -> Any:
        """A JSON value with every secret replaced, in keys as well."""
        match value:
            case None | bool():
                return value
            case str():
                return self.mask_text(value)
            case int() | float():
                masked = self.mask_text(str(value))
                return value if masked == str(value) else masked
            case Mapping():
                return self._mask_object(value)
            case list() | tuple():
                return [self.mask(item) for item in value]
            case _:
                return value

    def stream(self) -> MaskedStream:
        """For text that comes in pieces."""
        return MaskedStream(self._forms)

    def _mask_object(self, value: Mapping[str, Any]) -> dict[str, Any]:
        masked: dict[str, Any] = {}
        for key, item in value.items():
            name = self.mask_text(key) if isinstance(key, str) else key
            while name in masked:  # two secrets as keys may become one name: keep both values
                name += "'"
            masked[name] = self.mask(item)
        return masked


class MaskedStream:
    """Text in pieces in, masked text out; held back is only what may be the start of a secret."""

    def __init__(self, forms: list[_Form]) -> None:
        self._forms = forms
        self._held = ""

    def feed(self, text: str) -> str:
        """What of all text so far can be let go."""
        if not self._forms:
            return text
        self._held += text
        spans = _spans(self._forms, self._held)
        cut = self._cut(spans)
        out = _replaced(self._held[:cut], [span for span in spans if span[1] <= cut])
        self._held = self._held[cut:]
        return out

    def finish(self) -> str:
        """The rest, when no more text comes."""
        rest, self._held = self._held, ""
        return _replaced(rest, _spans(self._forms, rest))

    def _cut(self, spans: list[_Span]) -> int:
        return min((self._cut_of(form, spans) for form in self._forms), default=len(self._held))

    def _cut_of(self, form: _Form, spans: list[_Span]) -> int:
        """Where the text may be cut for one form: where its last, unfinished secret may begin."""
        size = len(self._held)
        start = max(0, size - form.max_length)
        while (found := form.tail.search(self._held, start)) is not None and found.start() < size:
            inside = next((s for s in spans if s[0] <= found.start() < s[1]), None)
            if inside is None:
                return found.start()
            start = inside[1]
        if form.may_go_on and spans and spans[-1][1] == size:
            return spans[-1][0]  # one more character of base64 may belong to it
        return size


def _checked_shapes(name: str, value: str) -> list[Shape]:
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r:.80} is not a name for a secret")
    if len(value) < MIN_SECRET:
        raise InvalidInput(
            f"the secret {name} has fewer than {MIN_SECRET} characters and cannot be masked",
            hint="use a longer one: text would be full of false matches",
        )
    try:
        return shapes(value)
    except UnicodeEncodeError:
        raise InvalidInput(f"the secret {name} is not text") from None


def _spans(forms: list[_Form], text: str) -> list[_Span]:
    """Where secrets stand, in order; where two overlap they are one, named after the first."""
    found = sorted(
        (match.start(), -match.end(), form.placeholder)
        for form in forms
        if form.core.search(text) is not None
        for match in form.whole.finditer(text)
    )
    spans: list[_Span] = []
    for start, negative_end, placeholder in found:
        end = -negative_end
        if spans and start < spans[-1][1]:
            before = spans[-1]
            spans[-1] = (before[0], max(end, before[1]), before[2])
        else:
            spans.append((start, end, placeholder))
    return spans


def _replaced(text: str, spans: list[_Span]) -> str:
    if not spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end, placeholder in spans:
        parts += (text[at:start], placeholder)
        at = end
    return "".join((*parts, text[at:]))
