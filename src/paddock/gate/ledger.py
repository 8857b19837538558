"""The amounts spent of each limit by all runs of an agent. An amount is reserved before the action
is decided on, so that proposed and running actions count, in every process; it is given back only
when the action certainly did not happen. A crash in between leaves it spent.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from paddock.gate.store import GateStore
from paddock.model.action import Action, Outcome
from paddock.policy.decide import Charge, Policy


class Reservation(msgspec.Struct, frozen=True):
    """Amounts that are held for one action, and what lay before them in each window."""

    spent: dict[str, int]
    rows: tuple[int, ...] = ()


NOTHING = Reservation({})


class PastAction(msgspec.Struct, frozen=True):
    """An action of an earlier run, its outcome, and the terms that it was under."""

    action: Action
    outcome: Outcome
    terms: Policy


class Ledger:
    """The account of one agent's run. Windows look at the account of `also` as well."""

    def __init__(self, store: GateStore, agent: str, run: str, also: str = "") -> None:
        self._store = store
        self._agent = agent
        self._run = run
        self._also = also or agent

    def reserve(self, charges: Sequence[Charge]) -> Reservation:
        """Reserve the amounts and return what was spent before, in one transaction for all
        processes."""
        if not charges:
            return NOTHING
        now = time.time()
        spent: dict[str, int] = {}
        rows = []
        with self._store.writing() as connection:
            for charge in charges:
                spent[charge.rule_id] = self._spent(connection, charge, now)
                rows.append(self._add(connection, charge, now))
        return Reservation(spent, tuple(rows))

    def spent(self, charges: Iterable[Charge]) -> dict[str, int]:
        """Return what was spent before of each limit that is charged. Nothing is reserved."""
        now = time.time()
        with self._store.connection() as connection:
            return {charge.rule_id: self._spent(connection, charge, now) for charge in charges}

    def restate(self, connection: sqlite3.Connection, charges: Iterable[Charge]) -> None:
        """Replace everything that this account has spent."""
        now = time.time()
        connection.execute("DELETE FROM spends WHERE agent = ?", (self._agent,))
        for charge in charges:
            self._add(connection, charge, now)

    def _add(self, connection: sqlite3.Connection, charge: Charge, now: float) -> int:
        made = connection.execute(
            "INSERT INTO spends (agent, run, rule, amount, at) VALUES (?, ?, ?, ?, ?)",
            (self._agent, self._run, charge.rule_id, charge.amount, now),
        )
        return made.lastrowid or 0

    def _spent(self, connection: sqlite3.Connection, charge: Charge, now: float) -> int:
        values: tuple[object, ...] = (self._run, charge.rule_id)
        where = "run = ? AND rule = ?"
        if charge.window_s is not None:  # over all runs of the agent
            where = "agent IN (?, ?) AND rule = ? AND at > ?"
            values = (self._agent, self._also, charge.rule_id, now - charge.window_s)
        query = f"SELECT COALESCE(SUM(amount), 0) FROM spends WHERE {where}"  # noqa: S608
        return int(connection.execute(query, values).fetchone()[0])

    def release(self, reservation: Reservation) -> None:
        """Give back what an action that did not happen had reserved."""
        if reservation.rows:
            with self._store.writing() as connection:
                connection.executemany(
                    "DELETE FROM spends WHERE id = ?", [(row,) for row in reservation.rows]
                )


class Accounts:
    """The accounts of one run: of real effects, of its world, and of its past."""

    def __init__(self, store: GateStore, agent: str, run: str) -> None:
        self._store = store
        unpaid = f"unpaid past of {run}"
        self.real = Ledger(store, agent, run, also=unpaid)
        # What is spent in a world counts in that world: the real budget is left alone.
        world = f"world of {run}"  # an account of its own, for each run and over all
        self._world = Ledger(store, world, world)
        # What an earlier run did really counts for the limits of this run, and for no other. The
        # budget of the agent was spent by that run, as its own terms counted; what these terms
        # count beyond that is unpaid.
        self._past = Ledger(store, f"past of {run}", run)
        self._unpaid = Ledger(store, unpaid, unpaid)
        self._has_past = False

    def reserve(self, policy: Policy, action: Action) -> Reservation:
        charges = policy.amounts(action)
        if not charges:
            return NOTHING
        return (self.real if _is_real(policy, action) else self._world).reserve(charges)

    def spent_instead(self, policy: Policy, held: Action, edited: Action) -> dict[str, int]:
        """Return what an action would find spent that takes the place of one that is held: that one
        gives back what it has reserved."""
        is_real = _is_real(policy, edited)
        spent = (self.real if is_real else self._world).spent(policy.amounts(edited))
        if _is_real(policy, held) is is_real:
            for charge in policy.amounts(held):
                if charge.rule_id in spent:
                    spent[charge.rule_id] = max(0, spent[charge.rule_id] - charge.amount)
        return spent

    def count_again(self, policy: Policy, action: Action, outcome: Outcome) -> None:
        """Let limits go on from what the past spent, under the terms that it was under."""
        charges = policy.amounts(action)
        if charges and policy.spends(action, outcome):
            self._has_past = True
            (self._past if _is_real(policy, action) else self._world).reserve(charges)

    def count_anew(self, policy: Policy, past: Iterable[PastAction]) -> None:
        """Count the past under other terms: what was counted of it before is forgotten."""
        real: list[Charge] = []
        unpaid: list[Charge] = []
        world: list[Charge] = []
        for past_action in past:
            charges = policy.amounts(past_action.action)
            if not charges or not past_action.terms.spends(past_action.action, past_action.outcome):
                continue
            if _is_real(past_action.terms, past_action.action):
                real += charges
                unpaid += _beyond(charges, past_action.terms.amounts(past_action.action))
            elif policy.stand_in(past_action.action) is not None:
                world += charges
        if not (self._has_past or real or world):
            return
        self._has_past = True
        with self._store.writing() as connection:
            self._past.restate(connection, real)
            self._unpaid.restate(connection, unpaid)
            self._world.restate(connection, world)

    def release(self, reservation: Reservation) -> None:
        self.real.release(reservation)


def _is_real(policy: Policy, action: Action) -> bool:
    stand_in = policy.stand_in(action)
    return stand_in is None or stand_in.is_real(action)


def _beyond(charges: Iterable[Charge], paid: Iterable[Charge]) -> list[Charge]:
    """Return what is left of amounts by rule when others have been paid."""
    amounts = {charge.rule_id: charge.amount for charge in paid}
    left = []
    for charge in charges:
        amount = charge.amount - amounts.get(charge.rule_id, 0)
        if amount > 0:
            left.append(replace(charge, amount=amount))
    return left
