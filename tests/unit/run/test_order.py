"""What a person asks to be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.model.action import Stage
from paddock.model.errors import CannotEnforce, InvalidInput
from paddock.policy.file import load
from paddock.run.order import order_of

FILE = """
version: 1
agent: a
stage: draft
sandbox: {limits: {cpu: 1}}
network: {allow: [api.example.com:443]}
world: {api.stripe.com: payments}
rules:
  - {id: one, match: {kind: http}, limit: {count: 1, max: 5, per: run}, decide: ask, why: x}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "paddock.yaml").write_text(FILE)
    return tmp_path


def test_the_projects_own_file_is_taken(project: Path) -> None:
    assert order_of(["true"], cwd=project).policy.agent == "a"


def test_without_a_file_nothing_leaves(tmp_path: Path) -> None:
    order = order_of(["true"], cwd=tmp_path)
    assert order.policy.network is None
    assert order.policy.stage is Stage.OBSERVE


def test_policy_of_an_order_can_be_written_down_and_read_again(project: Path) -> None:
    order = order_of(["true"], cwd=project, stage="narrow", faults="flaky", sets=["agent=b"])
    again = load(order.policy_text, "again", order.policy.terms.base)
    assert again == order.policy
    assert again.digest == order.policy.digest


def test_sets_reach_into_lists_and_names_with_dots(project: Path) -> None:
    sets = ["rules.0.limit.max=9", "sandbox.limits.cpu=2", "world.api.stripe.com=mail"]
    policy = order_of(["true"], cwd=project, sets=sets).policy
    assert policy.rules[0].limit is not None and policy.rules[0].limit.most == 9
    assert policy.sandbox.options["limits"]["cpu"] == 2
    assert policy.world is not None and policy.world.stand_ins[0].service == "mail"


@pytest.mark.parametrize(
    "value", ["[1", "!!python/x 1", "&a [*a]", "[" * 5000, "2024-99-99: {", "a: b: c", "*x"]
)
def test_a_set_that_is_no_value_of_a_file_is_refused_in_a_sentence(
    project: Path, value: str
) -> None:
    with pytest.raises(InvalidInput, match="--set stage"):
        order_of(["true"], cwd=project, sets=[f"stage={value}"])


@pytest.mark.parametrize("text", ["sandbox", "=1", "rules.7.why=x", "stage=nowhere", "nothing=1"])
def test_a_set_that_fits_nowhere_is_refused(project: Path, text: str) -> None:
    with pytest.raises(InvalidInput):
        order_of(["true"], cwd=project, sets=[text])


def test_a_wrong_set_without_a_file_names_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the usual policy with --set"):
        order_of(["true"], cwd=tmp_path, sets=["nothing=1"])


def test_offline_leaves_stand_ins_alone(project: Path) -> None:
    policy = order_of(["true"], cwd=project, offline=True).policy
    assert policy.terms.network is not None and policy.terms.network.allow == ()
    assert policy.network is not None and policy.network.stand_ins


def test_offline_keeps_the_placeholders_of_stand_ins_and_no_other_secret(project: Path) -> None:
    (project / "paddock.yaml").write_text(
        "version: 1\nagent: a\nstage: broad\n"
        "network: {allow: [api.stripe.com:443, real.example:443]}\n"
        "world: {api.stripe.com: payments}\n"
        "secrets:\n"
        "  STRIPE_KEY: {from: env:STRIPE_KEY, to: [api.stripe.com]}\n"
        "  REAL_KEY: {from: env:REAL_KEY, to: [real.example]}\n"
    )
    policy = order_of(["true"], cwd=project, offline=True).policy
    assert set(policy.terms.secrets) == {"STRIPE_KEY"}


def test_chance_is_new_each_time_unless_it_is_said(project: Path) -> None:
    seeds = {order_of(["true"], cwd=project).seed for _ in range(5)}
    assert len(seeds) == 5 and all(len(seed) == 64 for seed in seeds)
    assert order_of(["true"], cwd=project, seed=7).seed == "7"


def test_an_isolation_that_is_not_built_is_refused_and_never_weakened(project: Path) -> None:
    with pytest.raises(CannotEnforce, match="microvm"):
        order_of(["true"], cwd=project, isolation="microvm")
    with pytest.raises(InvalidInput, match="write container"):
        order_of(["true"], cwd=project, isolation="magic")


def test_a_mistake_in_what_may_vary_is_said_before_the_run(project: Path) -> None:
    (project / "paddock.yaml").write_text(FILE + "replay: {vary: ['*=any']}\n")
    with pytest.raises(InvalidInput, match="everything vary"):
        order_of(["true"], cwd=project)


def test_no_command_is_a_mistake(project: Path) -> None:
    with pytest.raises(InvalidInput, match="no command"):
        order_of([], cwd=project)
