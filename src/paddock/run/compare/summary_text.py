"""Short texts about a comparison, the same in a terminal and on a page."""

from __future__ import annotations

from collections.abc import Mapping

from paddock.model.money import money_text
from paddock.run.compare.pairs import Pair, Pairing, StepPart
from paddock.run.report import INTERRUPTED, RUNNING, RunReport, Spent

_MAX_CALL = 100


def divergence_text(pairing: Pairing) -> str:
    """Say in a sentence where a run diverges from the first one."""
    first = pairing.first
    if first is None:
        return "the same steps"
    here, there = first.pair.here, first.pair.there
    if here is None or there is None:
        trail, step = (pairing.here, here) if there is None else (pairing.there, there)
        assert step is not None
        return f"step {step.step}: only {trail.run} has it ({step.call[:_MAX_CALL]})"
    steps = str(here.step) if here.step == there.step else f"{here.step}/{there.step}"
    call = here.call[:_MAX_CALL]
    match first.part:
        case StepPart.DECISION:
            sides = [f"{step.verdict} by {step.recorded.decided_by}" for step in (here, there)]
        case StepPart.OUTCOME:
            sides = [step.result for step in (here, there)]
        case _:
            sides = []
    detail = f" ({sides[0]}, then {sides[1]})" if sides else ""
    return f"step {steps}: the {first.part} differs{detail}: {call}"


def parting_text(pairing: Pairing) -> str:
    """Say the same in a few words, for a table: `6 decision`, `+9 step`."""
    first = pairing.first
    if first is None:
        return "-"
    here, there = first.pair.here, first.pair.there
    if here is None:
        return f"+{there.step} step" if there is not None else "-"
    return f"{'-' if there is None else ''}{here.step} {first.part}"


def ended_text(report: RunReport) -> str:
    """Return how a run ended: `exit 0`, `interrupted`, or what ended it."""
    if report.state in (RUNNING, INTERRUPTED):
        return report.state
    if report.divergence is not None:
        return "diverged"
    if report.exit_code is not None:
        return f"exit {report.exit_code}"
    return (report.ended_by or "ended")[:60]


def took_text(duration_us: int) -> str:
    if duration_us < 1_000_000:
        return f"{duration_us / 1e3:.0f} ms"
    return f"{duration_us / 1e6:,.1f} s"


def spent_text(spent: Spent) -> str:
    """Return the tokens in and out, and dollars where prices are known."""
    if not spent.calls:
        return "-"
    dollars = f", ${spent.usd_micros / 1e6:.4f}" if spent.usd_micros else ""
    return f"{spent.input_tokens} in, {spent.output_tokens} out{dollars}"


def moved_text(money: Mapping[str, int]) -> str:
    """Return amounts such as `refunds 20.00 EUR`. For an unknown currency it is the number in the
    documents."""
    return ", ".join(_moved(*amount) for amount in money.items()) or "-"


def _moved(name: str, amount: int) -> str:
    kind, _, currency = name.rpartition(" ")
    text = money_text(amount, currency)
    return f"{name} {amount}" if text is None else f"{kind} {text}"


def said_lines(pair: Pair) -> list[str]:
    """Return what a model answered at a step, in each run where that is not the same."""
    here, there = (() if step is None else step.says for step in (pair.here, pair.there))
    if pair.here is None or pair.there is None or here == there:
        return list(here or there)
    return [f"{name}: {line}" for name, lines in (("A", here), ("B", there)) for line in lines]


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts such as `same 12, only in B 3`."""
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count)
