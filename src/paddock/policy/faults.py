"""Faults on purpose, as the file says them: what goes wrong, where, and when. Values only; who
strikes, and what a fault does to an action, is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from paddock.model.action import Kind
from paddock.policy.plain import one_or_many, plain_match

if TYPE_CHECKING:
    from paddock.policy.rules import Match

# In place of the effect: nothing happens, and the agent gets an error or silence.
INSTEAD = ("timeout", "status", "reset", "error", "nxdomain", "servfail", "disk_full")
# The effect happens; the agent gets no true answer.
SPOILING = ("truncate", "malformed", "wrong_type", "drip")
# Of an answer that has a status.
OF_STATUS = ("headers", "retry_after", "body")

_ASKING = (Kind.HTTP, Kind.MODEL)
_CALLING = (Kind.HTTP, Kind.MODEL, Kind.TOOL)
FITS: Mapping[str, tuple[Kind, ...]] = {
    "delay": tuple(Kind),
    "timeout": (*_CALLING, Kind.CONNECT, Kind.DNS),
    "status": _CALLING,
    "headers": _ASKING,
    "retry_after": _CALLING,
    "body": _ASKING,
    "error": _CALLING,
    "reset": (*_CALLING, Kind.CONNECT),
    "truncate": _CALLING,
    "malformed": _CALLING,
    "wrong_type": _ASKING,
    "drip": _ASKING,
    "duplicate": (Kind.HTTP, Kind.TOOL),
    "stale": (Kind.HTTP, Kind.TOOL),
    "after": _CALLING,
    "disk_full": (Kind.EXEC, Kind.CODE, Kind.FILE, Kind.TOOL),
    "kill": (Kind.EXEC,),
    "nxdomain": (Kind.DNS,),
    "servfail": (Kind.DNS,),
}


class Strikes(msgspec.Struct, frozen=True):
    """Which of the actions that match a fault it strikes. All that is said must hold."""

    rate: float = 1.0  # the chance of each
    times: int | None = None  # at most so many strikes
    after: int = 0  # so many matches are left alone first
    first: int | None = None  # of those behind them, only the first so many
    every: int | None = None  # of those behind them, each n-th
    steps: tuple[int, ...] = ()  # only these steps of the run
    seed: int | None = None  # in place of the run's

    def could(self, match: int, struck: int, step: int) -> bool:
        """Whether the `match`-th match (from 1) may be struck, whatever the chance says, when
        `struck` others were."""
        number = match - self.after
        return (
            number > 0
            and (self.first is None or number <= self.first)
            and (self.every is None or number % self.every == 0)
            and (not self.steps or step in self.steps)
            and (self.times is None or struck < self.times)
        )


class FaultTerms(msgspec.Struct, frozen=True):
    """One fault of the file. `words` are plain JSON: durations in seconds, sizes in bytes."""

    id: str
    kinds: tuple[Kind, ...]
    words: Mapping[str, Any]
    match: Match
    unless: Match | None = None
    when: str | None = None
    strikes: Strikes = Strikes()


def plain_fault(fault: FaultTerms) -> dict[str, Any]:
    """The fault as JSON, in the shape of the file. What has its usual value is left out."""
    kinds = [kind.value for kind in fault.kinds]
    plain: dict[str, Any] = {
        "id": fault.id,
        "match": {"kind": one_or_many(kinds), **plain_match(fault.match)},
    }
    if fault.unless is not None:
        plain["unless"] = plain_match(fault.unless)
    if fault.when is not None:
        plain["when"] = fault.when
    plain["fault"] = dict(fault.words)
    usual = asdict(Strikes())
    for name, value in asdict(fault.strikes).items():
        if value != usual[name]:
            plain[name] = list(value) if isinstance(value, tuple) else value
    return plain
