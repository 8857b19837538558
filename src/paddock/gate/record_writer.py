"""The records of a gate in its journal: those that belong together in one write, what the fence
observed in front of them, and the values of secrets in none of them."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.journal.codec import encode
from paddock.journal.errors import JournalBroken
from paddock.journal.plain_values import as_json
from paddock.journal.secrets.mask import Masker
from paddock.journal.secrets.value_hmac import ValueHmac, hmac_leaves
from paddock.journal.writer import Journal, JournalEntry
from paddock.model.action import Action
from paddock.model.events import AnyEvent, Proposed


class RecordWriter:
    """Writes the records of one gate. May be used from any thread."""

    def __init__(self, journal: Journal, masker: Masker | None) -> None:
        self.journal = journal
        self.keyed: ValueHmac | None = None
        self._masker = masker
        self._observed: list[JournalEntry] = []
        self._lock = threading.Lock()

    def write(self, *entries: JournalEntry) -> int:
        """Write in one piece, in order, what was observed so far and these events. Raises
        JournalBroken."""
        with self._lock:  # two threads must not take the same observations
            observed = list(self._observed)
            position = self.journal.extend((*observed, *entries))
            del self._observed[: len(observed)]
            return position

    def proposed(self, action: Action, step: int) -> JournalEntry:
        """Return the record of a proposal. What is masked in it can be compared by keyed hashes."""
        event = Proposed.of(action)
        if self._masker is None or self.keyed is None:
            return JournalEntry(event, step)
        text = encode(event)
        if self._masker.is_clean(text):
            return JournalEntry(event, step, text)
        leaves = hmac_leaves(self.keyed, action.arguments, self._masker.mask(action.arguments))
        return JournalEntry(msgspec.structs.replace(event, keyed=leaves), step)

    def observe(self, event: AnyEvent, step: int | None) -> None:
        """Hold an event back until the next write."""
        self._observed.append(JournalEntry(event, step))

    def flush(self) -> None:
        """Write what was observed. Raises JournalBroken."""
        try:
            if self._observed:
                self.write()
        except JournalBroken:
            self._observed.clear()  # nobody will ever write them: they must not pile up
            raise

    def record(self, event: AnyEvent, step: int | None = None) -> None:
        """Write one event. Raises JournalBroken."""
        self.write(JournalEntry(event, step))

    def masked_action(self, action: Action) -> Action:
        """Return the action as it may be shown and stored. Numbers stay as they are: it may be sent
        one day."""
        if self._masker is None:
            return action
        arguments, context = self._masker.mask(action.arguments), self._masker.mask(action.context)
        return replace(action, arguments=arguments, context=context)

    def masked(self, value: Any) -> Any:
        plain = as_json(value)
        return plain if self._masker is None else self._masker.mask(plain)
