"""Under which conditions a run was made, and what of them is otherwise than in another run."""

from __future__ import annotations

from paddock.journal.index_terms import MAX_WORDS, changed_terms, run_terms
from paddock.journal.traffic import mapping
from paddock.run.compare.trail import Trail


def conditions(trail: Trail) -> dict[str, str]:
    """What a run was made under, by name. Equal for runs under the same conditions."""
    return run_terms(trail.opened, trail.setting)


def otherwise(trail: Trail, base: Trail) -> tuple[str, ...]:
    """What was different about a run, in words: `stage narrow`, `seed 7`, `fault timeout`."""
    return changed_terms(conditions(trail), conditions(base))


def origin(trail: Trail, base: Trail) -> str:
    """Where it comes from: empty, `fork of R at 7`, `replay of R`. The first run of a comparison
    is not named."""
    lineage = mapping(trail.opened.get("lineage"))
    parent, at = lineage.get("run"), lineage.get("at")
    if not isinstance(parent, str):
        return ""
    of = "" if parent == base.run else f" of {parent}"
    place = f" at {at}" if type(at) is int else ""
    return f"{trail.report.kind}{of}{place}"[:MAX_WORDS]
