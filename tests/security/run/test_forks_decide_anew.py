"""A fork under other terms: nothing of the old ones is left once it is live."""

from __future__ import annotations

import pytest

from paddock.doors.machine.engine import Engine
from paddock.gate.drafts import Drafts
from paddock.gate.run_gate import gate_store
from paddock.run.replay.fork import ForkOptions, fork
from security.run.conftest import GET, KEPT, SECRETS, VALUE, Stand, said, steps

PAYING = """
import urllib.error, urllib.request
for n in range(4):
    try:
        urllib.request.urlopen("http://api.example/pay", data=b"n=%d" % n)
        print("paid", flush=True)
    except urllib.error.HTTPError as error:
        print("refused", error.code, flush=True)
"""
LIMIT = """rules:
  - id: {id}
    match: {{kind: http, host: api.example, method: POST}}
    limit: {{count: 1, max: 2, per: run}}
    decide: block
    why: Two are enough.
"""


def test_a_connection_that_the_past_opened_does_not_outlive_its_terms(stand: Stand) -> None:
    recorded = stand.record(KEPT)
    second = list(steps(recorded, "http"))[1]
    terms = stand.policy(stand.terms.replace("api.example:80, ", ""))
    future = fork(recorded.directory, ForkOptions(at=second, policy=terms))[0]
    assert future.divergence is None
    assert "/one 200" in said(future) and said(future).count(" 200 ") == 1
    assert stand.server.connections == 0


def test_a_rule_of_the_new_terms_holds_on_a_connection_of_the_past(stand: Stand) -> None:
    recorded = stand.record(KEPT)
    second = list(steps(recorded, "http"))[1]
    rule = (
        "rules:\n  - {id: never, match: {kind: http, path: /three}, decide: block, why: Never.}\n"
    )
    future = fork(
        recorded.directory,
        ForkOptions(at=second, policy=stand.policy(stand.terms + SECRETS + rule)),
    )[0]
    assert "/two 200" in said(future) and "/three 403" in said(future)
    assert b"/two" in stand.server.heard and b"/three" not in stand.server.heard


def test_a_secret_that_the_new_terms_do_not_name_goes_nowhere(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = stand.record(KEPT)
    second = list(steps(recorded, "http"))[1]
    for is_set in (True, False):
        if not is_set:
            monkeypatch.delenv("ATTACK_TEST_KEY")  # nor is it asked for
        words = ForkOptions(at=second, policy=stand.policy(stand.terms))
        future = fork(recorded.directory, words)[0]
        assert future.divergence is None and "/two 200" in said(future)
        assert b"/two" in stand.server.heard and VALUE.encode() not in stand.server.heard


def test_what_the_past_spent_counts_once(stand: Stand) -> None:
    terms = stand.terms + LIMIT.format(id="two")
    recorded = stand.record(PAYING, terms)
    assert said(recorded).split() == ["paid", "paid", "refused", "403", "refused", "403"]
    second = list(steps(recorded, "http"))[1]
    future = fork(recorded.directory, ForkOptions(at=second))[0]
    assert said(future) == said(recorded)
    assert stand.server.heard.count(b"POST /pay") == 1


def test_what_the_past_spent_counts_for_a_limit_that_is_new(stand: Stand) -> None:
    recorded = stand.record(PAYING, stand.terms)
    assert said(recorded).count("paid") == 4
    second = list(steps(recorded, "http"))[1]
    terms = stand.policy(stand.terms + LIMIT.format(id="new"))
    future = fork(recorded.directory, ForkOptions(at=second, policy=terms))[0]
    assert said(future).count("paid") == 2


def test_a_draft_of_the_past_is_not_a_second_draft(stand: Stand) -> None:
    recorded = stand.record(PAYING, stand.terms.replace("stage: broad", "stage: draft"))
    last = list(steps(recorded, "http"))[-1]
    future = fork(recorded.directory, ForkOptions(at=last))[0]
    drafts = Drafts(gate_store(Engine.current().home)).all()
    assert [one.step for one in drafts if one.run == future.run] == [last]
    assert len([one for one in drafts if one.run == recorded.run]) == 4


def test_a_secret_file_that_came_later_is_not_in_a_fork(stand: Stand) -> None:
    look = (
        "import os\nopen('own', 'w').write('1')\n" + GET +
        "print([os.path.exists(one) for one in ('own', '.env', 'later/.env', 'later')])\n"
    )  # fmt: skip
    recorded = stand.record(look)
    (stand.project / "later").mkdir()
    for path in (".env", "later/.env"):
        (stand.project / path).write_text("KEY=1")
    future = fork(recorded.directory, ForkOptions(at="last"))[0]
    assert future.divergence is None
    assert "[True, False, False, True]" in said(future)


def test_forks_at_once_see_nothing_of_each_other(stand: Stand) -> None:
    # Live begins with the second request: what it writes after that is its own.
    busy = (
        GET
        + GET.replace("/one", "/two")
        + (
            "import os, time\nme = str(time.monotonic_ns())\n"
            "open('mine-' + me, 'w').write(me)\nopen('/home/user/mine-' + me, 'w').write(me)\n"
            "for n in range(10):\n"
            "    urllib.request.urlopen('http://api.example/%d' % n).read()\n"
            "    seen = os.listdir('.') + os.listdir('/home/user')\n"
            "    mine = [one for one in seen if one.startswith('mine')]\n"
            "    assert mine == ['mine-' + me] * 2, seen\n"
        )
    )
    recorded = stand.record(busy)
    futures = fork(recorded.directory, ForkOptions(at=3), count=3, jobs=3)
    assert [(one.exit_code, one.divergence) for one in futures] == [(0, None)] * 3, [
        said(one) for one in futures
    ]
    assert not [one.name for one in stand.project.iterdir() if one.name.startswith("mine")]
