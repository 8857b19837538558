"""The sandboxes that commands make for themselves: their journals are no runs of an agent."""

from __future__ import annotations

from typing import Unpack

from paddock.doors.machine.engine import Engine
from paddock.doors.machine.sandbox import Sandbox
from paddock.doors.machine.sandbox_gate import Opening
from paddock.doors.machine.sandboxes import create_box
from paddock.doors.terms import CreateOptions, PolicyLike, terms_of


def create_sandbox(kind: str, policy: PolicyLike = None, **words: Unpack[CreateOptions]) -> Sandbox:
    """Make what `Sandbox.create` makes, with a journal that says which command it was."""
    decided, spec = terms_of(policy, words)
    engine = Engine.current()
    made = create_box(engine, spec, decided, opening=Opening(kind=kind))
    return Sandbox(engine, engine.call(made))
