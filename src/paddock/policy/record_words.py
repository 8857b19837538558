"""What a file or a caller says about the record of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.model.sizes import DEFAULT_RECORD_BUDGET, parse_size
from paddock.policy.words import known_keys, within

# Less than this does not hold what a run says of itself.
MIN_RECORD_BUDGET = 64 << 10


def record_budget_of(words: Mapping[str, Any]) -> int:
    """Return the budget that `record={...}` asks for. Raises InvalidInput."""
    known = known_keys(words, ("budget",), ("record",))
    if "budget" not in known:
        return DEFAULT_RECORD_BUDGET
    return within(("record", "budget"), budget_of, known["budget"])


def budget_of(value: Any) -> int:
    """Return the number of bytes of a size such as `4GiB`. Raises InvalidInput."""
    try:
        budget = parse_size(value, "budget")
    except InvalidInput as error:
        raise InvalidInput(error.message.removeprefix("budget: "), hint="write 4GiB") from None
    if budget < MIN_RECORD_BUDGET:
        raise InvalidInput(f"{value!r:.60} is less than 64KiB", hint="write 4GiB")
    return budget
