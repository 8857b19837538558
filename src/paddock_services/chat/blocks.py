"""The rules of Slack's Block Kit for the blocks of a message.

Slack refuses a message with blocks that break a rule with `invalid_blocks`, and says for each
problem where it is, as a JSON pointer. Checked are the kinds of blocks and elements, the fields
that a kind must have, text objects with their lengths, and the number of items.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paddock_services.chat.arguments import SlackError

MAX_BLOCKS = 50
_REQUIRED_FIELDS = {
    "actions": ("elements",),
    "context": ("elements",),
    "divider": (),
    "file": ("external_id", "source"),
    "header": ("text",),
    "image": ("alt_text",),
    "input": ("label", "element"),
    "markdown": ("text",),
    "rich_text": ("elements",),
    "section": (),
    "table": ("rows",),
    "video": ("title", "alt_text", "thumbnail_url", "video_url"),
}
_MAX_ITEMS = {("actions", "elements"): 25, ("context", "elements"): 10, ("section", "fields"): 10}
_PLAIN = ("plain_text",)
_ANY_TEXT = ("plain_text", "mrkdwn")
_TEXT_OBJECTS = {  # kinds of text and greatest length
    ("header", "text"): (_PLAIN, 150),
    ("section", "text"): (_ANY_TEXT, 3000),
    ("section", "fields"): (_ANY_TEXT, 2000),
    ("input", "label"): (_PLAIN, 2000),
    ("button", "text"): (_PLAIN, 75),
}
_SELECTS = ("static", "external", "users", "conversations", "channels")
_ELEMENTS = frozenset(
    {"button", "checkboxes", "datepicker", "datetimepicker", "email_text_input", "file_input",
     "image", "number_input", "overflow", "plain_text_input", "radio_buttons", "rich_text_input",
     "timepicker", "url_text_input", "workflow_button"}
    | {f"{kind}_select" for kind in _SELECTS}
    | {f"multi_{kind}_select" for kind in _SELECTS}
)  # fmt: skip


def check_blocks(blocks: list[Any]) -> None:
    """Raise SlackError for blocks that Slack would not show."""
    problems = []
    if len(blocks) > MAX_BLOCKS:
        problems.append(_problem(f"no more than {MAX_BLOCKS} items allowed", "/blocks"))
    for number, block in enumerate(blocks[:MAX_BLOCKS]):
        problems += _check_block(block, f"/blocks/{number}")
    if problems:
        messages = [f"[ERROR] {problem}" for problem in problems]
        raise SlackError(
            "invalid_blocks", errors=problems, response_metadata={"messages": messages}
        )


def _check_block(block: Any, pointer: str) -> Iterator[str]:
    kind = _kind(block)
    if kind not in _REQUIRED_FIELDS:
        yield _unsupported(block, pointer)
        return
    for field in _REQUIRED_FIELDS[kind]:
        if not block.get(field):
            yield _problem(f"missing required field: {field}", pointer)
    if kind == "section" and not block.get("text") and not block.get("fields"):
        yield _problem("must define either `fields` or `text`", pointer)
    if kind == "image" and not block.get("image_url") and not block.get("slack_file"):
        yield _problem("must define either `slack_file` or `image_url`", pointer)
    for field in ("text", "fields", "label"):
        if block.get(field) and (kind, field) in _TEXT_OBJECTS:
            yield from _check_texts(kind, field, block[field], f"{pointer}/{field}")
    if kind in ("actions", "context") and block.get("elements"):
        yield from _check_elements(kind, block["elements"], f"{pointer}/elements")
    for field in ("accessory", "element"):
        if block.get(field):
            yield from _check_element(block[field], f"{pointer}/{field}")


def _check_elements(kind: str, elements: Any, pointer: str) -> Iterator[str]:
    most = _MAX_ITEMS[kind, "elements"]
    if not isinstance(elements, list) or len(elements) > most:
        yield _problem(f"must be an array of no more than {most} items", pointer)
        return
    for number, element in enumerate(elements):
        here = f"{pointer}/{number}"
        if kind == "context" and _kind(element) in _ANY_TEXT:
            yield from _check_text(element, here, _ANY_TEXT, 3000)
        elif kind == "context" and _kind(element) != "image":
            yield _unsupported(element, here)
        else:
            yield from _check_element(element, here)


def _check_element(element: Any, pointer: str) -> Iterator[str]:
    kind = _kind(element)
    if kind not in _ELEMENTS:
        yield _unsupported(element, pointer)
    elif kind == "button":
        yield from _check_texts(kind, "text", element.get("text"), f"{pointer}/text")


def _check_texts(kind: str, field: str, value: Any, pointer: str) -> Iterator[str]:
    """Check a text object, or a list of them where the field has several."""
    kinds, most = _TEXT_OBJECTS[kind, field]
    most_items = _MAX_ITEMS.get((kind, field))
    if most_items is None:
        yield from _check_text(value, pointer, kinds, most)
    elif not isinstance(value, list) or len(value) > most_items:
        yield _problem(f"must be an array of no more than {most_items} items", pointer)
    else:
        for number, text in enumerate(value):
            yield from _check_text(text, f"{pointer}/{number}", kinds, most)


def _check_text(value: Any, pointer: str, kinds: tuple[str, ...], most: int) -> Iterator[str]:
    if _kind(value) not in kinds:
        yield _unsupported(value, pointer)
        return
    text = value.get("text")
    if not isinstance(text, str) or not text:
        yield _problem("must be more than 0 characters", f"{pointer}/text")
    elif len(text) > most:
        yield _problem(f"must be less than {most + 1} characters", f"{pointer}/text")


def _kind(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


def _unsupported(value: Any, pointer: str) -> str:
    kind = _kind(value)
    if kind is None:
        return _problem("missing required field: type", pointer)
    return _problem(f"unsupported type: {kind[:100]}", f"{pointer}/type")


def _problem(text: str, pointer: str) -> str:
    return f"{text} [json-pointer:{pointer}]"
