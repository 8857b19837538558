"""Puts back what an approver was not shown: where an edit leaves a masked value as it was shown,
the real one is meant.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paddock.gate.crossing import Crossing
from paddock.gate.editing import check_editable
from paddock.model.action import Action
from paddock.model.errors import InvalidInput

MAX_EDITS = 5  # of one action, one after the other


def restored(edited: Any, shown: Any, real: Any) -> Any:
    """The edit, with the real value wherever it equals what was shown in its place."""
    if _same(edited, shown):
        return real
    if isinstance(edited, Mapping) and isinstance(shown, Mapping) and isinstance(real, Mapping):
        return _restored_object(edited, shown, real)
    if isinstance(edited, list) and isinstance(shown, list) and isinstance(real, list | tuple):
        return _restored_list(edited, shown, real)
    return edited


def _restored_object(
    edited: Mapping[str, Any], shown: Mapping[str, Any], real: Mapping[str, Any]
) -> dict[str, Any]:
    if len(shown) != len(real):
        return dict(edited)
    # A secret can stand in a key too; masking keeps the order.
    names = dict(zip(shown, real, strict=True))
    return {
        names.get(key, key): restored(value, shown[key], real[names[key]])
        if key in names
        else value
        for key, value in edited.items()
    }


def _restored_list(edited: list[Any], shown: list[Any], real: Any) -> list[Any]:
    if len(shown) != len(real):
        return edited
    if len(edited) == len(shown):
        return [restored(*three) for three in zip(edited, shown, real, strict=True)]
    # Some were taken out or put in: those that are still there are known by what was shown.
    known = {_text(one): true for one, true in zip(shown, real, strict=True)}
    return [known.get(_text(one), one) for one in edited]


def _same(one: Any, other: Any) -> bool:
    """As JSON: to Python 1 and True are equal."""
    return _text(one) == _text(other)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def rewritten(
    crossing: Crossing, edited_arguments: Mapping[str, Any], shown: Mapping[str, Any]
) -> Action:
    """The action that an approver made of one whose arguments were shown. Raises InvalidInput."""
    if crossing.edits >= MAX_EDITS:
        raise InvalidInput(f"It was edited more than {MAX_EDITS} times.")
    action, rebuild = crossing.action, crossing.means.rebuild
    if rebuild is None:
        check_editable(action)
    arguments = restored(edited_arguments, shown, action.arguments)
    edited = replace(action, arguments=arguments) if rebuild is None else rebuild(action, arguments)
    return replace(edited, parent=crossing.step)
