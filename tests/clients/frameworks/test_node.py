"""An agent in Node with OpenAI's own library. Chance is not seeded there, so what it makes up is
declared to vary."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clients.frameworks.recordings import Played, project_of, record
from clients.packages import clients
from paddock.model.action import Kind, Outcome
from paddock.run.replay.fork import ForkOptions
from paddock.run.replay.replay import PastOptions
from repetition import times

KEYS = ("headers.idempotency-key=uuid",)
END = "Ada has 4200 cents back; the note has 43 bytes."
NO_REFUNDS = "rules=[{id: no-refunds, match: {path: /v1/refunds, kind: http}, decide: block}]"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Played:
    project = project_of("node", tmp_path_factory.mktemp("frameworks") / "node")
    library = Path("node_modules", "openai")
    shutil.copytree(clients() / library, project / library)
    return record(project, ["node", "agent.mjs"])


@pytest.mark.repeated
def test_node_agent_is_replayed_with_declared_chance(recorded: Played) -> None:
    assert END in recorded.out
    for _ in range(times(1, 3)):
        again = recorded.replay(KEYS)
        assert again.ended.divergence is None, again.ended.divergence
        assert (again.out, again.steps()) == (recorded.out, recorded.steps())


def test_key_that_the_agent_draws_needs_no_declaration_and_is_named(recorded: Played) -> None:
    again = recorded.replay()
    assert again.ended.divergence is None, again.ended.divergence
    assert (again.out, again.steps()) == (recorded.out, recorded.steps())
    assert any("idempotency-key" in label for label in again.ended.varied)


def test_node_agent_has_another_future_under_other_rules(recorded: Played) -> None:
    at = recorded.refund().number
    (forked,) = recorded.fork(ForkOptions(at, sets=(NO_REFUNDS,), past=PastOptions(vary=KEYS)))
    assert forked.steps()[: at - 1] == recorded.steps()[: at - 1]
    assert forked.tape.settled(at).outcome is Outcome.REFUSED
    assert forked.file("notes/ada.md") == "not refunded: 403\n"
    last = forked.of(Kind.MODEL)[-1].number
    (further,) = forked.fork(ForkOptions(last, past=PastOptions(vary=KEYS)))
    assert further.steps() == forked.steps()
    assert further.out == forked.out
