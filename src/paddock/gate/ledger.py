"""What was spent of each limit, by all runs of an agent. An amount is reserved before the action is
decided on, so that proposed and running actions count, in every process; it is given back only when
the action certainly did not happen. A crash in between leaves it spent.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence

from paddock.gate.store import GateStore
from paddock.model.action import Action, Outcome
from paddock.model.values import dataclass
from paddock.policy.decide import Charge, Policy

_NOT_DONE = {Outcome.REFUSED, Outcome.DRAFTED, Outcome.SIMULATED, Outcome.FAULTED}


@dataclass(frozen=True, slots=True)
class Reservation:
    """Amounts that are held for one action, and what lay before them in each window."""

    spent: dict[str, int]
    rows: tuple[int, ...] = ()


NOTHING = Reservation({})


class Ledger:
    """The account of one agent's run."""

    def __init__(self, store: GateStore, agent: str, run: str) -> None:
        self._store = store
        self._agent = agent
        self._run = run

    def reserve(self, charges: Sequence[Charge]) -> Reservation:
        """Holds the amounts and says what was spent before, as one step for all processes."""
        if not charges:
            return NOTHING
        now = time.time()
        spent: dict[str, int] = {}
        rows = []
        with self._store.writing() as connection:
            for charge in charges:
                spent[charge.rule_id] = self._spent(connection, charge, now)
                made = connection.execute(
                    "INSERT INTO spends (agent, run, rule, amount, at) VALUES (?, ?, ?, ?, ?)",
                    (self._agent, self._run, charge.rule_id, charge.amount, now),
                )
                rows.append(made.lastrowid or 0)
        return Reservation(spent, tuple(rows))

    def _spent(self, connection: sqlite3.Connection, charge: Charge, now: float) -> int:
        values: tuple[object, ...] = (self._run, charge.rule_id)
        where = "run = ? AND rule = ?"
        if charge.window_s is not None:  # over all runs of the agent
            where = "agent = ? AND rule = ? AND at > ?"
            values = (self._agent, charge.rule_id, now - charge.window_s)
        query = f"SELECT COALESCE(SUM(amount), 0) FROM spends WHERE {where}"  # noqa: S608
        return int(connection.execute(query, values).fetchone()[0])

    def release(self, reservation: Reservation) -> None:
        """Gives back what an action that did not happen had reserved."""
        if reservation.rows:
            with self._store.writing() as connection:
                connection.executemany(
                    "DELETE FROM spends WHERE id = ?", [(row,) for row in reservation.rows]
                )


class Accounts:
    """Where the amounts of one run are counted: really, in its world, and in its past."""

    def __init__(self, store: GateStore, agent: str, run: str) -> None:
        self.real = Ledger(store, agent, run)
        # What is spent in a world counts in that world: the real budget is left alone.
        world = f"world of {run}"  # an account of its own, for each run and over all
        self._world = Ledger(store, world, world)
        # What an earlier run did really counts for the limits of this run, and for no other.
        self._past = Ledger(store, f"past of {run}", run)

    def reserve(self, policy: Policy, action: Action) -> Reservation:
        charges = policy.amounts(action)
        if not charges:
            return NOTHING
        stand_in = policy.stand_in(action)
        is_real = stand_in is None or stand_in.is_real(action)
        return (self.real if is_real else self._world).reserve(charges)

    def count_again(
        self, policy: Policy, action: Action, outcome: Outcome, before: Policy | None = None
    ) -> None:
        """Limits go on from what the past spent; only those that are new since `before`, where it
        was counted by that. The real budget of the agent was spent by the earlier run, and is not
        spent twice."""
        if not counts(policy, action, outcome):
            return
        known = () if before is None else [one.rule_id for one in before.amounts(action)]
        charges = [one for one in policy.amounts(action) if one.rule_id not in known]
        is_simulated = outcome is Outcome.SIMULATED
        (self._world if is_simulated else self._past).reserve(charges)

    def release(self, reservation: Reservation) -> None:
        self.real.release(reservation)


def counts(policy: Policy, action: Action, outcome: Outcome) -> bool:
    """Whether what was reserved is spent. What a stand-in did counts in its world."""
    if outcome is Outcome.SIMULATED:
        return policy.stand_in(action) is not None
    return outcome not in _NOT_DONE
