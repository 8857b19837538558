"""A run's gate, with its journal below the home and its key outside of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from paddock.gate.gate import Gate
from paddock.gate.project import project_directory
from paddock.gate.recorded_answers import RecordedAnswers
from paddock.gate.store import GateStore
from paddock.journal.budget import RecordBudget
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.secrets.mask import Masker
from paddock.journal.writer import Journal
from paddock.model.events import Opened
from paddock.policy.decide import Policy
from paddock.state.home import Home

if TYPE_CHECKING:
    from paddock.gate.approvals.request import Approver

_guard = threading.Lock()
_keys: dict[Path, SigningKey] = {}
_stores: dict[Path, GateStore] = {}


def open_gate(
    home: Home,
    run: str,
    policy: Policy,
    *,
    about: Opened | None = None,
    secrets: Mapping[str, str] | None = None,
    approvers: Sequence[Approver] = (),
    answers: RecordedAnswers | None = None,
) -> Gate:
    """Begin the journal of a new run and return its gate. `about` is what the caller knows about
    the run; the policy and, where it is missing, the project are added."""
    masker = Masker(dict(secrets)) if secrets else None
    opened = about or Opened(run=run, agent=policy.agent)
    opened = msgspec.structs.replace(
        opened,
        run=run,
        agent=policy.agent,
        project=opened.project or project_directory(),
        stage=str(policy.stage),
        policy_digest=policy.digest,
    )
    journal = Journal.create(
        home.runs / run,
        opened=opened,
        key=signing_key(home),
        masker=masker,
        is_quick=True,
        budget=RecordBudget(policy.terms.record_budget),
    )
    store = gate_store(home)
    return Gate(policy, journal, store, masker=masker, approvers=approvers, answers=answers)


def approvers_for(policy: Policy) -> list[Approver]:
    """Return those whom the file wants asked in the terminal of the run; the store is always
    there."""
    if "terminal" not in policy.approvals.by:
        return []
    from paddock.gate.approvals.terminal import TerminalApprover  # most runs ask nobody

    return [TerminalApprover()]


def prepare_gates(home: Home) -> None:
    """Make or load what all gates of this home share."""
    signing_key(home)
    gate_store(home)


def signing_key(home: Home) -> SigningKey:
    """Return the key of this home; read once by each process."""
    with _guard:
        if home.keys not in _keys:
            _keys[home.keys] = SigningKey.open(home.keys)
        return _keys[home.keys]


def gate_store(home: Home) -> GateStore:
    """Return the store that the gates of all processes share."""
    path = home.root / "gate.sqlite"
    with _guard:
        if path not in _stores:
            _stores[path] = GateStore(path)
        return _stores[path]
