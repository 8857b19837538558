"""A run without a sandbox of its own: a gate for tools, from a paddock file."""

from __future__ import annotations

from collections.abc import Mapping

from paddock.doors.terms import PolicyLike, policy_of
from paddock.doors.trust import Trust
from paddock.gate.gate import Gate
from paddock.gate.run_gate import approvers_for, open_gate
from paddock.state.home import Home, new_id


def open_run(
    policy: PolicyLike = "paddock.yaml",
    *,
    run: str | None = None,
    secrets: Mapping[str, str] | None = None,
    trust: bool = False,
) -> Gate:
    """Begins a run and its journal; use it as a context, or close it. `secrets` are masked
    wherever they would be written or shown. `trust` agrees, for this time, to all that a paddock
    file asks of the host."""
    decided = policy_of(policy, Trust(is_given=trust))
    name = run or new_id()
    approvers = approvers_for(decided)
    return open_gate(Home.find(), name, decided, secrets=secrets, approvers=approvers)
