"""Ids that an agent made up: a recorded one and its new one belong together from first sight on."""

from __future__ import annotations

from collections.abc import Mapping

Id = str | int | float
_MIN_INSIDE = 4  # characters; a shorter id is found in honest text everywhere


class Bindings:
    """Pairs of a recorded id and its new one. No id is in two pairs."""

    def __init__(self) -> None:
        self._new: dict[Id, Id] = {}
        self._recorded: dict[Id, Id] = {}

    def __bool__(self) -> bool:
        return bool(self._new)

    def fits(self, recorded: Id, proposed: Id, more: Mapping[Id, Id]) -> bool:
        """Return whether the two ids may be a pair, given `more` pairs that are not added yet."""
        bound = self._new.get(recorded, more.get(recorded))
        if bound is not None:
            # A recorded answer may have told the agent the recorded id.
            return proposed in (bound, recorded)
        other = self._recorded.get(proposed, recorded)
        return other == recorded and proposed not in more.values()

    def add(self, pairs: Mapping[Id, Id]) -> None:
        for recorded, proposed in pairs.items():
            self._new.setdefault(recorded, proposed)
            self._recorded.setdefault(proposed, recorded)

    def translate(self, text: str) -> str:
        """Replace the recorded ids in a recorded text by the new ones."""
        ids = [id_ for id_ in self._new if isinstance(id_, str) and self._is_in(id_, text)]
        for id_ in sorted(ids, key=len, reverse=True):
            text = text.replace(id_, str(self._new[id_]))
        return text

    def _is_in(self, id_: str, text: str) -> bool:
        return len(id_) >= _MIN_INSIDE and id_ in text
