"""A fork has terms of its own from its step on, and keeps them: for the first request after it, for
who forks it further, and for who replays it."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.run.listening import Listening
from paddock.gate.gate import Gate
from paddock.run.compare.comparison import compare
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import replay
from paddock.run.session import FinishedRun, run

ASKING = """\
import json, sys, urllib.error, urllib.request

def ask(text, host="api.openai.com"):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    head = {"content-type": "application/json"}
    url = f"https://{host}/v1/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), head)
    try:
        answer = json.load(urllib.request.urlopen(request, timeout=20))
    except urllib.error.URLError as error:
        return getattr(error, "code", "unreachable")
    return answer["choices"][0]["message"]["content"]

for number in range(3):
    print(ask(f"question {number}"))
print(ask("last", "model.example"))
"""
FILE = """\
version: 1
agent: asking
stage: broad
world: {api.openai.com: {service: model, script: {otherwise: "so {{user}}"}}}
"""
NO_MODELS = "rules=[{id: no-models, match: {kind: http, path: /v1/chat/*}, decide: block}]"
HELLO = "{service: model, script: {otherwise: hello}}"
ONE_MORE = f"world={{api.openai.com: {HELLO}, model.example: {HELLO}}}"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    place = tmp_path_factory.mktemp("terms") / "project"
    place.mkdir()
    (place / "agent.py").write_text(ASKING)
    (place / "paddock.yaml").write_text(FILE)
    heard = Listening()
    ended = run(order_of(["python3", "agent.py"], cwd=place), heard)
    assert heard.lines == ["so question 0", "so question 1", "so question 2", "unreachable"]
    return ended


def forked(ended: FinishedRun, words: ForkOptions) -> tuple[FinishedRun, list[str]]:
    heard = Listening()
    return fork(ended.directory, words, watch=heard)[0], heard.lines


def question(ended: FinishedRun, number: int) -> int:
    """The step of a question."""
    rows = RecordedRun(ended.directory).steps
    texts = [(row.number, str(row.arguments.get("body"))) for row in rows if row.within is None]
    return next(step for step, text in texts if f"question {number}" in text)


def test_first_request_of_a_fork_is_under_its_terms_even_if_it_asks_a_model(
    recorded: FinishedRun,
) -> None:
    words = ForkOptions(question(recorded, 1), sets=(NO_MODELS,))
    assert forked(recorded, words)[1][:3] == ["so question 0", "403", "403"]


def test_fork_of_a_fork_is_under_the_terms_of_the_fork(recorded: FinishedRun) -> None:
    first, _ = forked(recorded, ForkOptions(question(recorded, 1), sets=(NO_MODELS,)))
    second, lines = forked(first, ForkOptions(question(first, 2)))
    assert second.divergence is None
    assert lines[:3] == ["so question 0", "403", "403"]
    third, lines = forked(second, ForkOptions(question(second, 2), sets=("rules=[]",)))
    assert third.divergence is None
    assert lines[:3] == ["so question 0", "403", "so question 2"]


def test_replay_of_a_fork_of_a_fork_comes_under_all_their_terms(recorded: FinishedRun) -> None:
    first, _ = forked(recorded, ForkOptions(question(recorded, 1), sets=(NO_MODELS,)))
    second, lines = forked(first, ForkOptions(question(first, 2), sets=("rules=[]",)))
    once = replay(second.directory)
    heard = Listening()
    twice = replay(once.directory, watch=heard)
    assert (once.divergence, twice.divergence) == (None, None)
    assert heard.lines == lines


def test_fork_reaches_a_host_that_only_its_own_terms_have(recorded: FinishedRun) -> None:
    last = RecordedRun(recorded.directory).last_step
    found, lines = forked(recorded, ForkOptions(last, sets=(ONE_MORE,)))
    assert lines == [*(f"so question {n}" for n in range(3)), "hello"]
    heard = Listening()
    assert replay(found.directory, watch=heard).divergence is None
    assert heard.lines == lines


def test_past_is_whole_though_the_fork_has_no_such_host_any_more(recorded: FinishedRun) -> None:
    at = question(recorded, 2)
    found, lines = forked(recorded, ForkOptions(at, sets=("world={model.example: " + HELLO + "}",)))
    assert found.divergence is None
    assert lines == ["so question 0", "so question 1", "unreachable", "hello"]


NEVER = "faults: [{id: never, match: {kind: http}, fault: {status: 500}, step: 100000}]\n"


def test_faults_that_do_not_strike_are_no_divergence_and_older_records_still_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.py").write_text(ASKING)
    (tmp_path / "paddock.yaml").write_text(FILE)
    plain = run(order_of(["python3", "agent.py"], cwd=tmp_path))
    (tmp_path / "paddock.yaml").write_text(FILE + NEVER)
    order = order_of(["python3", "agent.py"], cwd=tmp_path)
    with monkeypatch.context() as patched:
        # Earlier versions made a step of the request wherever a fault concerned requests.
        patched.setattr(Gate, "is_step", lambda gate, request: True)
        older = run(order)
    newer = run(order)
    kinds = [row.kind for row in RecordedRun(newer.directory).steps]
    assert kinds == [row.kind for row in RecordedRun(plain.directory).steps]
    assert len(RecordedRun(older.directory).steps) == len(kinds) + 3
    found = compare([plain.directory, newer.directory, older.directory])
    assert [one.first for one in found.pairings] == [None, None]
    for one in (older, newer):
        again = replay(one.directory)
        assert again.divergence is None, again.divergence.text if again.divergence else ""
