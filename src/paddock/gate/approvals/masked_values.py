"""Puts back what an approver was not shown: where an edit leaves a masked value as it was shown,
the real one is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from paddock.gate.approvals.argument_edits import check_editable, json_text
from paddock.gate.crossing import Crossing
from paddock.model.action import Action
from paddock.model.errors import InvalidInput

MAX_EDITS = 5  # of one action, one after the other


def restored(edited: Any, shown: Any, real: Any) -> Any:
    """The edit, with the real value wherever it equals what was shown in its place."""
    if json_text(edited) == json_text(shown):
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
    real_values = {json_text(item): value for item, value in zip(shown, real, strict=True)}
    return [real_values.get(json_text(item), item) for item in edited]


def rewritten(
    crossing: Crossing, edited_arguments: Mapping[str, Any], shown: Mapping[str, Any]
) -> Action:
    """The action that an approver made of one whose arguments were shown. Raises InvalidInput."""
    if crossing.edits >= MAX_EDITS:
        raise InvalidInput(f"It was edited more than {MAX_EDITS} times.")
    action, rebuild = crossing.action, crossing.handlers.rebuild
    if rebuild is None:
        check_editable(action)
    arguments = restored(edited_arguments, shown, action.arguments)
    edited = replace(action, arguments=arguments) if rebuild is None else rebuild(action, arguments)
    return replace(edited, parent=crossing.step)
