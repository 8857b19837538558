"""The stand-in itself: a script, and the application that speaks it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from paddock.model.errors import InvalidInput
from paddock.world.service import ASGIApp, Service
from paddock.world.services.model.endpoint import Endpoint
from paddock.world.services.model.loading import load_file, load_words
from paddock.world.services.model.memory import MOMENTS, UNMATCHED, Memory
from paddock.world.services.model.plot import Plot
from paddock.world.services.model.script import Script

_HINT = "write script: scenario.yaml, or script: {turns: [...]}"
_SHOWN = 20


class Model(Service):
    """A language model that says what its script says, to OpenAI's and Anthropic's clients."""

    name: ClassVar[str] = "model"
    is_prompt: ClassVar[bool] = True  # unless its script says `delay`
    timeout_s: ClassVar[float] = 660.0  # a script may let an answer wait for ten minutes
    options: ClassVar[Mapping[str, str]] = {
        "script": "what the model says: the path of a YAML file, or the script itself",
    }

    def check(self) -> None:
        _ = self.script

    @functools.cached_property
    def script(self) -> Script:
        """Read once, so that what was checked is what is played. Raises InvalidInput."""
        given = self.context.options.get("script")
        if isinstance(given, str | Path) and str(given):
            return load_file(self.context.path(str(given)))
        if isinstance(given, Mapping):
            return load_words(given)
        raise InvalidInput("model: it has no script", hint=_HINT)

    def app(self) -> ASGIApp:
        store = self.context.store
        store.index(MOMENTS, "conversation")
        return Endpoint(Plot(self.script, self.context), store, self.context.start)

    def show(self) -> dict[str, Any]:
        """Return how far the script was played, in which conversations, and what it could not
        answer."""
        store = self.context.store
        try:
            script = self.script
        except InvalidInput:  # long after a run, its script may be gone
            script = Script("(cannot be read)")
        conversations = Memory(self.context).conversations()
        used: dict[str, int] = {}
        for one in conversations:
            for entry, times in one["answers"].items():
                used[entry] = used.get(entry, 0) + times
        return {
            "script": script.name,
            "turns": {entry.id: used.pop(entry.id, 0) for entry in script.turns},
            "rules": {entry.id: used.pop(entry.id, 0) for entry in script.rules},
            **used,
            "tokens": {
                "input": sum(one["input_tokens"] for one in conversations),
                "output": sum(one["output_tokens"] for one in conversations),
            },
            "conversations": conversations[-_SHOWN:],
            "unmatched": store.find(UNMATCHED, limit=_SHOWN, newest_first=True),
        }
