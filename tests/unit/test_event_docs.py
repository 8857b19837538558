"""That docs/what-a-run-is.md lists every event, in the words of its docstring."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

from paddock.model.events import AnyEvent, Event, Unknown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "what-a-run-is.md"
EVENTS: list[type[Event]] = [event for event in get_args(AnyEvent) if event is not Unknown]


def first_sentence(event: type[Event]) -> str:
    text = " ".join((inspect.getdoc(event) or "").split())
    sentence = re.match(r".*?[.](?= |$)", text)
    assert sentence is not None, f"{event.__name__} needs a docstring"
    return sentence[0]


def test_every_event_is_on_the_page_with_what_it_says() -> None:
    page = PAGE.read_text()
    rows = [f"| `{event.TYPE}` | {first_sentence(event)} |" for event in EVENTS]
    assert [row for row in rows if row not in page] == []


def test_no_event_of_the_page_is_unknown_to_the_code() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \| [A-Z]", PAGE.read_text(), re.MULTILINE))
    assert listed == {event.TYPE for event in EVENTS}


def test_types_are_names_of_events_and_none_is_used_twice() -> None:
    types = [event.TYPE for event in EVENTS]
    assert len(types) == len(set(types))
    assert all(re.fullmatch(r"[a-z_]{1,32}", name) for name in types)
