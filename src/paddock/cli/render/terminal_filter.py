"""The output of an agent on its way to a terminal. Colours and line ends pass; whatever else a
terminal would act on is spelled out: a cursor that moves could rewrite a question that a person is
about to answer, and some sequences reach the clipboard. Output to a pipe or a file is left alone.
"""

from __future__ import annotations

import codecs
import re

from paddock.model.plain import plain

_COLOUR = r"\x1b\[[0-9;:]{0,40}m"
_PARTS = re.compile(rf"({_COLOUR}|[\n\r\t])")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;:]{0,40})?\Z")  # what may become a colour


class Harmless:
    """One stream. What is not whole yet (a character, a colour) waits for the rest."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._rest = ""
        self.is_coloured = False  # whether a colour may still be on

    def feed(self, data: bytes) -> str:
        """What can be shown so far."""
        text = self._rest + self._decoder.decode(data)
        found = _UNFINISHED.search(text)
        self._rest = found[0] if found else ""
        return self._shown(text[: found.start()] if found else text)

    def end(self) -> str:
        """What waited in vain."""
        text = self._rest + self._decoder.decode(b"", final=True)
        self._rest = ""
        return self._shown(text)

    def _shown(self, text: str) -> str:
        if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
            return text
        parts = _PARTS.split(text)
        if len(parts) > 1:
            self.is_coloured = self.is_coloured or "\x1b[" in "".join(parts[1::2])
        return "".join(
            part if at % 2 else plain(part, len(part) + 1) for at, part in enumerate(parts)
        )
