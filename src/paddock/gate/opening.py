"""A run's gate, with its journal below the home and its key outside of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.gate.gate import Gate
from paddock.gate.past import Past
from paddock.gate.project import project_directory
from paddock.gate.store import GateStore
from paddock.journal.budget import RecordBudget
from paddock.journal.keys import SigningKey
from paddock.journal.mask import Masker
from paddock.journal.writer import Journal
from paddock.policy.decide import Policy
from paddock.state.home import Home

if TYPE_CHECKING:
    from paddock.gate.asking import Approver

_guard = threading.Lock()
_keys: dict[Path, SigningKey] = {}
_stores: dict[Path, GateStore] = {}


def open_gate(
    home: Home,
    run: str,
    policy: Policy,
    *,
    about: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    approvers: Sequence[Approver] = (),
    past: Past | None = None,
) -> Gate:
    """Begins the journal of a new run and gives its gate."""
    masker = Masker(dict(secrets)) if secrets else None
    opened = {
        "project": project_directory(),
        **(about or {}),
        "run": run,
        "agent": policy.agent,
        "stage": str(policy.stage),
        "policy_digest": policy.digest,
    }
    journal = Journal.create(
        home.runs / run,
        opened=opened,
        key=signing_key(home),
        masker=masker,
        is_quick=True,
        budget=RecordBudget(policy.terms.record_budget),
    )
    store = gate_store(home)
    return Gate(policy, journal, store, masker=masker, approvers=approvers, past=past)


def approvers_for(policy: Policy) -> list[Approver]:
    """Those whom the file wants asked in the terminal of the run; the store is always there."""
    if "terminal" not in policy.approvals.by:
        return []
    from paddock.gate.terminal import TerminalApprover  # most runs ask nobody

    return [TerminalApprover()]


def prepare_gates(home: Home) -> None:
    """Makes or loads what all gates of this home share."""
    signing_key(home)
    gate_store(home)


def signing_key(home: Home) -> SigningKey:
    """The key of this home; read once by each process."""
    with _guard:
        if home.keys not in _keys:
            _keys[home.keys] = SigningKey.open(home.keys)
        return _keys[home.keys]


def gate_store(home: Home) -> GateStore:
    """What gates of all processes share."""
    path = home.root / "gate.sqlite"
    with _guard:
        if path not in _stores:
            _stores[path] = GateStore(path)
        return _stores[path]
