"""An agent in Node with OpenAI's own library. Chance is not seeded there, so what it makes up is
declared to vary."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from clients.frameworks.recordings import Played, project_of, record
from paddock.model.action import Kind, Outcome
from paddock.run.forking import ForkWords

PACKAGES = ("openai@6",)
INSTALL_S = 120
KEYS = ("headers.idempotency-key=uuid",)
END = "Ada has 4200 cents back; the note has 43 bytes."
NO_REFUNDS = "rules=[{id: no-refunds, match: {path: /v1/refunds, kind: http}, decide: block}]"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Played:
    project = project_of("node", tmp_path_factory.mktemp("frameworks") / "node")
    npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]
    subprocess.run([*npm, str(project), *PACKAGES], check=True, timeout=INSTALL_S)
    return record(project, ["node", "agent.mjs"])


def test_node_agent_is_replayed_with_declared_chance(recorded: Played) -> None:
    assert END in recorded.out
    for _ in range(3):
        again = recorded.replay(KEYS)
        assert again.ended.divergence is None, again.ended.divergence
        assert (again.out, again.steps()) == (recorded.out, recorded.steps())


def test_chance_that_is_not_declared_is_a_divergence(recorded: Played) -> None:
    again = recorded.replay()
    assert again.ended.divergence is not None
    assert again.ended.divergence.step == recorded.refund().step
    assert [one.at for one in again.ended.divergence.differences] == ["headers.idempotency-key"]


def test_node_agent_has_another_future_under_other_rules(recorded: Played) -> None:
    at = recorded.refund().step
    (forked,) = recorded.fork(ForkWords(at, sets=(NO_REFUNDS,), vary=KEYS))
    assert forked.steps()[: at - 1] == recorded.steps()[: at - 1]
    assert forked.tape.settled(at).outcome is Outcome.REFUSED
    assert forked.file("notes/ada.md") == "not refunded: 403\n"
    last = forked.of(Kind.MODEL)[-1].step
    (further,) = forked.fork(ForkWords(last, vary=KEYS))
    assert further.steps() == forked.steps()
    assert further.out == forked.out
