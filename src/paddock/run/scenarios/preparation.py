"""A case made ready to run: its order, and what it is measured by. All that can be wrong with it is
said here, before anything runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from paddock.doors.trust import (
    GIVEN,
    NO_TRUST,
    Trust,
    check_requests,
    check_trust,
    shown_outside,
)
from paddock.model.errors import InvalidInput
from paddock.policy.world import SETTINGS, plain_world
from paddock.run.order import Order, order_of
from paddock.run.scenarios.checks import Bar
from paddock.run.scenarios.expressions import world_condition
from paddock.run.scenarios.scenario import Case, Scenario, cases_of, fault_list

# Chance is the same each time, unless the scenario says otherwise. As a text it leaves the seed of
# the file's world alone.
USUAL_SEED = "0"


class Prepared(msgspec.Struct, frozen=True):
    """A case that can run."""

    case: Case
    order: Order
    bar: Bar


def prepare(
    scenarios: Iterable[Scenario], *, is_offline: bool = False, trust: Trust = NO_TRUST
) -> list[Prepared]:
    """Prepare all cases. Raises InvalidInput with everything that is wrong with any of them, and
    NotTrusted for a paddock file that asks of the host what nobody agreed to."""
    cases: list[Prepared] = []
    wrong: list[str] = []
    for scenario in scenarios:
        for case in cases_of(scenario):
            try:
                cases.append(prepared(case, is_offline=is_offline, trust=trust))
            except InvalidInput as error:
                wrong.append(f"{scenario.source}: {case.name}: {error}")
    if wrong:
        raise InvalidInput("\n".join(dict.fromkeys(wrong)))
    return cases


def prepared(case: Case, *, is_offline: bool = False, trust: Trust = NO_TRUST) -> Prepared:
    """Prepare one case. Raises InvalidInput and NotTrusted."""
    scenario = case.scenario
    order = _order(scenario, is_offline=is_offline)
    check_trust(order.policy, trust, file=scenario.source)
    if scenario.check is None and os.path.isfile(scenario.source):  # Python needs no scenario
        own = os.path.dirname(os.path.abspath(scenario.source))
        shown = shown_outside([scenario.cwd, *scenario.files_from], own, os.getcwd())
        check_requests(scenario.source, shown, trust)
    world = order.policy.world
    places = [] if world is None else [stand_in.place for stand_in in world.stand_ins]
    conditions = []
    for number, source in enumerate(scenario.expect.world):
        try:
            conditions.append(world_condition(source, places))
        except InvalidInput as error:
            message = f"expect.world[{number}]: {error.message}"
            raise InvalidInput(message, hint=error.hint) from None
    return Prepared(case, order, Bar(scenario.expect, tuple(conditions)))


def order_in_world(
    command: Sequence[str], options: Mapping[str, Any], world: Mapping[str, Any] | None
) -> Order:
    """Return the order with these options of `order_of`, and with this world laid over that of its
    policy, place by place."""
    order = order_of(command, **options)
    if world is None:
        return order
    own = {} if order.policy.world is None else plain_world(order.policy.world)
    together = {**own, **world}
    settings = {**own.get(SETTINGS, {}), **(world.get(SETTINGS) or {})}
    if settings:
        together[SETTINGS] = settings
    return order_of(command, **options, world=together)


def _order(scenario: Scenario, *, is_offline: bool) -> Order:
    options: dict[str, Any] = {
        "cwd": scenario.cwd,
        "file": scenario.file,
        "stage": scenario.stage,
        "offline": is_offline,
        "sets": scenario.sets,
        "envs": scenario.envs,
        "seed": USUAL_SEED if scenario.seed is None else scenario.seed,
        "faults": fault_list(scenario.faults),
        "timeout": scenario.timeout_s,
        "stdin": scenario.stdin,
        "trust": GIVEN,  # checked when the scenario has said what it says otherwise
    }
    return order_in_world(scenario.agent, options, scenario.world)
