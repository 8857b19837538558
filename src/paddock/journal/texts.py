"""The records of every crossing as canonical text at once: to make a body, look through it and
spell it out would take most of the time that a crossing takes. What a text says is defined by the
body of the same name in `bodies`; values out of the ordinary take the way through it.
"""

from __future__ import annotations

from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from paddock.journal.bodies import (
    MAX_VALUE_DEPTH,
    Stored,
    as_json,
    as_text,
    decided_body,
    settled_body,
)
from paddock.journal.canonical import canonical_text, plain_text
from paddock.model.action import Action, Decision, Effect, Receipt, RuleHit, Verdict


class Canonical(str):
    """A body that is canonical text already."""

    __slots__ = ()


def proposed_text(action: Action) -> Canonical:
    """`proposed_body`, spelled out."""
    context = f'"context":{_value(action.context)},' if action.context else ""
    parent = "" if action.parent is None else f',"parent":{action.parent}'
    return Canonical(
        f'{{"arguments":{_value(_kept(action))},{context}"effect":"{action.effect.value}",'
        f'"is_contained":{_flag(action.is_contained)},'
        f'"is_reversible":{_flag(action.is_reversible)},"kind":"{action.kind.value}",'
        f'"name":{_text(action.name)}{parent}}}'
    )


def _kept(action: Action) -> Any:
    return action.arguments if action.recorded is None else action.recorded


def decided_text(decision: Decision) -> Canonical:
    """`decided_body`, spelled out. Many actions are decided on in the same words."""
    if decision.fault is not None:
        return Canonical(canonical_text(decided_body(decision)))
    return _decided(
        decision.verdict,
        decision.decided_by,
        decision.why,
        decision.effect,
        decision.hits,
        decision.is_draft,
        decision.once_approved,
    )


def settled_text(receipt: Receipt, result: Any = None) -> Canonical | dict[str, Any]:
    """`settled_body`, spelled out; as it is where a part of it is stored elsewhere."""
    told = receipt.result if result is None else result
    if type(told) is dict and _has_stored(told):
        return settled_body(receipt, told)
    by = f'"answered_by":{_text(receipt.answered_by)},' if receipt.answered_by is not None else ""
    cost = f'"cost":{_value(receipt.cost)},' if receipt.cost else ""
    draft = f'"draft_id":{_text(receipt.draft_id)},' if receipt.draft_id is not None else ""
    error = f'"error":{_text(receipt.error)},' if receipt.error is not None else ""
    return Canonical(
        f'{{{by}{cost}{draft}{error}"outcome":"{receipt.outcome.value}","result":{_value(told)}}}'
    )


def _has_stored(result: dict[str, Any]) -> bool:
    if "pieces" in result or "frames" in result:
        return True
    return Stored in (type(result.get("body")), type(result.get("base64")))


@lru_cache(maxsize=256)
def _decided(
    verdict: Verdict,
    decided_by: str,
    why: str,
    effect: Effect,
    hits: tuple[RuleHit, ...],
    is_draft: bool,
    once_approved: Verdict,
) -> Canonical:
    decision = Decision(verdict, decided_by, why, effect, hits, is_draft, None, once_approved)
    return Canonical(canonical_text(decided_body(decision)))


def _value(value: Any) -> str:
    text = plain_text(value, MAX_VALUE_DEPTH)
    return canonical_text(as_json(value)) if text is None else text


def _text(value: str) -> str:
    spelled: str = encode_basestring(as_text(value))
    return spelled


def _flag(value: bool) -> str:
    return "true" if value else "false"
