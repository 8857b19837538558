"""The file that a run needed: it loads, allows that run, and not much else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import for_each
from paddock.model.action import Action, Decision, Effect, Kind, Stage, Verdict
from paddock.policy.analysis.candidate import RecordedAction, replay
from paddock.policy.analysis.path_patterns import file_patterns, request_patterns
from paddock.policy.analysis.proposed_file import ASKED
from paddock.policy.analysis.proposed_file import learn as learn_below
from paddock.policy.file import load
from paddock.policy.globs import any_of
from unit.policy.cases import file_action, http, recorded_action, run, tool


def recorded(*found: Action, verdict: Verdict = Verdict.ALLOW) -> list[RecordedAction]:
    return [
        recorded_action(step, action, Decision(verdict, "default", "", action.effect))
        for step, action in enumerate(found)
    ]


def learn(steps: Iterable[RecordedAction], agent: str = "agent") -> str:
    """From a run that was under no ceiling."""
    return learn_below(steps, agent, ceiling=Stage.BROAD)


RUN = recorded(
    run("/usr/bin/python3", "a.py", real_path="/usr/bin/python3.11"),
    run("/bin/busybox", told="sh"),
    file_action("write", "/home/user/work/a.txt"),
    file_action("write", "/home/user/work/b.txt"),
    file_action("write", "/home/user/work/c.txt"),
    file_action("rename", "/home/user/x", to="/home/user/y"),
    file_action("read", "/etc/hosts"),
    Action(Kind.CODE, "python", {"language": "python", "code": "1"}, is_contained=True),
    tool("search", query="x"),
    tool("refund", Effect.WRITE, amount=5),
    tool("drop", Effect.ADMIN),
    http("api.test", "GET", "/v1/orders/1234"),
    http("api.test", "POST", "/v1/orders"),
    Action(Kind.CONNECT, "db.test", {"host": "db.test", "port": 5432}),
    Action(Kind.DNS, "db.test", {"name": "db.test"}),
    Action(Kind.MODEL, "m", {"provider": "acme", "model": "small-1"}),
)


def test_a_learned_file_allows_its_run() -> None:
    policy = load(learn(RUN, "bot"))
    verdicts = [policy.decide(one.action).verdict for one in RUN]
    assert verdicts == [Verdict.ALLOW] * len(RUN)
    assert replay(policy, RUN) == []


@for_each(
    "action",
    [
        tool("delete_everything"),
        run("/usr/bin/curl"),
        run("/tmp/python3", real_path="/tmp/evil"),
        file_action("write", "/home/user/.ssh/authorized_keys"),
        file_action("remove", "/home/user/z"),
        file_action("rename", "/home/user/x", to="/etc/passwd"),
        Action(Kind.CODE, "bash", {"language": "bash"}, is_contained=True),
        http("evil.test"),
        http("api.test", "DELETE", "/v1/orders/1234"),
        http("api.test", "GET", "/admin"),
        Action(Kind.CONNECT, "db.test", {"host": "db.test", "port": 22}),
        Action(Kind.DNS, "evil.test", {"name": "evil.test"}),
        Action(Kind.MODEL, "m", {"provider": "acme", "model": "big"}),
    ],
)
def test_a_learned_file_blocks_what_the_run_did_not_do(action: Action) -> None:
    assert load(learn(RUN)).decide(action).verdict is Verdict.BLOCK


def test_a_learned_file_lets_what_is_like_the_run_pass() -> None:
    policy = load(learn(RUN))
    assert policy.decide(file_action("write", "/home/user/work/d.txt")).verdict is Verdict.ALLOW
    assert policy.decide(http("api.test", "GET", "/v1/orders/99")).verdict is Verdict.ALLOW


def test_every_rule_of_a_learned_file_is_explained_by_a_comment() -> None:
    lines = learn(RUN).splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("  - id:")]
    assert starts
    assert all(lines[number - 1].startswith("  # ") for number in starts)


@pytest.mark.parametrize(
    ("found", "stage"),
    [
        ([tool("a")], Stage.OBSERVE),
        ([file_action("write", "/home/user/x")], Stage.OBSERVE),
        ([tool("a", Effect.WRITE)], Stage.NARROW),
        ([Action(Kind.TOOL, "a", {}, Effect.WRITE, is_reversible=False)], Stage.BROAD),
        ([tool("a", Effect.ADMIN)], Stage.BROAD),
    ],
)
def test_the_stage_is_the_strictest_that_lets_the_run_pass(
    found: list[Action], stage: Stage
) -> None:
    policy = load(learn(recorded(*found)))
    assert policy.stage is stage
    assert all(policy.decide(one).verdict is Verdict.ALLOW for one in found)


def test_the_strictest_effect_that_was_seen_is_learned() -> None:
    policy = load(learn(recorded(tool("a"), tool("a", Effect.WRITE), tool("a"))))
    assert policy.tools["a"].effect is Effect.WRITE


def test_what_was_blocked_is_not_learned() -> None:
    policy = load(learn(recorded(tool("a")) + recorded(tool("b"), verdict=Verdict.BLOCK)))
    assert set(policy.tools) == {"a"}


def test_nothing_learned_is_still_a_file() -> None:
    assert load(learn([])).decide(run("/bin/ls")).verdict is Verdict.ALLOW


def test_what_cannot_be_allowed_by_a_file_is_named_on_its_top() -> None:
    text = learn(recorded(tool("a"), tool("b*"), file_action("write", "/a/../b")))
    load(text)
    assert "not a name" in text.splitlines()[1]
    assert "Not allowed by this file" in text
    assert "steps 1." in text


paths = st.lists(st.sampled_from(["home", "user", "etc", "a", "b*", "**", "c d"]), min_size=1,
                 max_size=5).map(lambda parts: "/" + "/".join(parts))  # fmt: skip


@given(st.lists(paths, max_size=20))
def test_patterns_cover_what_was_seen_and_never_everything(found: list[str]) -> None:
    patterns = file_patterns(found)
    test = any_of(patterns, "/")
    assert all(test(path) for path in found)
    for canary in ("/", "/zzz", "/zzz/zzz", "/home/zzz"):
        assert not test(canary) or canary in found or any("*" in path for path in found)
    assert not {"/**", "/*", "**", "/*/**", "/home/**", "/etc/**", "/etc/*"} & (
        set(patterns) - {path.replace("**", "*") for path in found})  # fmt: skip


def test_many_files_open_their_directory_and_no_more() -> None:
    three = [f"/srv/data/{name}" for name in "abc"]
    assert file_patterns(three) == ["/srv/data/*"]
    assert file_patterns(["/srv/a", "/srv/b", "/srv/c"]) == ["/srv/a", "/srv/b", "/srv/c"]
    deep = [f"/srv/data/{directory}/{name}" for directory in "wxyz" for name in "abc"]
    assert file_patterns(deep) == ["/srv/data/**"]


def test_only_segments_with_digits_are_left_open_in_requests() -> None:
    found = request_patterns(["/v1/orders/1", "/v1/orders/2", "/v1/me", "/"])
    assert found == ["/", "/v1/me", "/v1/orders/*"]


_names = st.text("ab*/. \n", max_size=6)
_any_action: st.SearchStrategy[Action] = st.one_of(
    st.builds(lambda name, effect: tool(name, effect), _names, st.sampled_from(list(Effect))),
    st.builds(lambda program: run("/" + program), _names),
    st.builds(lambda path, to: file_action("rename", "/" + path, to="/" + to), _names, _names),
    st.builds(lambda host, path: http(host, path="/" + path), _names, _names),
    st.builds(lambda value: Action(Kind.EXEC, "x", {"program": value}, is_contained=True),
              st.none() | st.integers()),
)  # fmt: skip


@given(st.lists(_any_action, max_size=6))
def test_whatever_was_recorded_the_file_loads_and_names_what_it_does_not_allow(
    found: list[Action],
) -> None:
    past = recorded(*found)
    text = learn(past)
    policy = load(text)
    refused: list[Any] = [
        one.step for one in past if policy.decide(one.action).verdict is not Verdict.ALLOW
    ]
    assert bool(refused) == ("Not allowed by this file" in text)


def spoken(kind: Kind, host: str, port: int, effect: Effect = Effect.READ) -> Action:
    arguments = {"host": host, "port": port, "method": "GET", "path": "/v1/x", "provider": "p",
                 "model": "m"}  # fmt: skip
    return Action(kind, host, arguments, effect)


def test_where_a_run_went_is_learned_as_a_list_of_hosts() -> None:
    went = recorded(
        spoken(Kind.HTTP, "API.example.com", 443),
        spoken(Kind.HTTP, "api.example.com", 443, Effect.WRITE),
        spoken(Kind.CONNECT, "api.example.com", 443),
        spoken(Kind.CONNECT, "db.example", 5432),
        spoken(Kind.MODEL, "model.example", 443),
        spoken(Kind.HTTP, "fd00::1", 80),
        Action(Kind.DNS, "db.example", {"host": "db.example"}),
    )
    policy = load(learn(went))
    assert policy.network is not None
    assert {str(one) for one in policy.network.allow} == {
        "api.example.com:443",
        "db.example:5432/tcp",
        "model.example:443",
        "[fd00::1]:80",
    }
    assert all(policy.decide(one.action).verdict is Verdict.ALLOW for one in went)
    assert policy.decide(spoken(Kind.HTTP, "api.example.com", 80)).verdict is Verdict.BLOCK
    # Only what changes something is granted by a rule.
    assert [rule.kinds for rule in policy.rules] == [(Kind.HTTP,)]


def test_a_name_that_was_only_looked_up_is_granted_nothing() -> None:
    """It may be that of a stand-in, which answers lookups of its name."""
    lookup = Action(Kind.DNS, "a.example", {"name": "a.example"})
    assert "a.example" not in learn(recorded(lookup))


def test_a_name_that_was_only_looked_up_is_left_to_a_person() -> None:
    lookup = Action(Kind.DNS, "a.example", {"host": "a.example"})
    text = learn(recorded(spoken(Kind.HTTP, "api.example.com", 443), lookup))
    assert "to be decided by hand: steps 1." in text


def test_what_a_stand_in_answered_opens_no_way_to_the_real_host() -> None:
    paid = http("api.stripe.test", "POST", "/v1/refunds")
    asked = Action(Kind.DNS, "api.stripe.test", {"host": "api.stripe.test",
                                                 "name": "api.stripe.test"})  # fmt: skip
    stood_in = Decision(Verdict.SIMULATE, "world", "", Effect.WRITE)
    struck = Decision(Verdict.FAULT, "flaky", "", Effect.WRITE)
    steps = [
        recorded_action(1, asked, Decision(Verdict.ALLOW, "network", "", Effect.READ)),
        recorded_action(2, paid, struck),
        recorded_action(3, paid, stood_in),
        recorded_action(4, http("api.test", "POST", "/v1/orders"),
                        Decision(Verdict.ALLOW, "network", "", Effect.WRITE)),
    ]  # fmt: skip
    text = learn(steps, "bot")
    policy = load(text)
    assert policy.decide(paid).verdict is Verdict.BLOCK
    assert policy.decide(steps[3].action).verdict is Verdict.ALLOW
    assert "Left out, a stand-in answered: api.stripe.test." in text


@pytest.mark.parametrize(
    "decision",
    [
        Decision(Verdict.ASK, "r", "", Effect.WRITE),
        Decision(Verdict.ASK, "r", "", Effect.WRITE, once_approved=Verdict.SIMULATE),
        Decision(Verdict.SIMULATE, "r", "", Effect.WRITE),
        Decision(Verdict.SIMULATE, "stage", "", Effect.WRITE, is_draft=True),
        Decision(Verdict.FAULT, "r", "", Effect.WRITE),
    ],
)
@pytest.mark.parametrize(
    "action", [http("api.test", "POST", "/v1/refunds"), tool("refund", Effect.WRITE, amount=5)]
)
def test_nothing_is_learned_from_what_was_not_simply_allowed(
    action: Action, decision: Decision
) -> None:
    text = learn([recorded_action(1, action, decision), *recorded(tool("search"))])
    policy = load(text)
    assert policy.stage is Stage.OBSERVE
    assert policy.decide(action).verdict is Verdict.BLOCK
    assert "Left out, " in text


def test_nothing_is_learned_from_what_the_journal_calls_rehearsed() -> None:
    paid = http("api.test", "POST", "/v1/refunds")
    allowed = Decision(Verdict.ALLOW, "network", "", Effect.WRITE)
    text = learn([recorded_action(1, paid, allowed, rehearsed=ASKED)])
    assert load(text).decide(paid).verdict is Verdict.BLOCK
    assert "Left out, a person was asked: api.test." in text


@pytest.mark.parametrize("ceiling", list(Stage))
def test_learning_never_raises_the_stage(ceiling: Stage) -> None:
    policy = load(learn_below(recorded(tool("drop", Effect.ADMIN)), ceiling=ceiling))
    assert policy.stage is ceiling


def test_program_that_the_agent_could_write_is_learned_by_its_path() -> None:
    built = run("/home/user/tools/build", "x", real_path="/home/user/tools/build")
    policy = load(learn(recorded(built, run("/usr/bin/python3", "a.py"))))
    written = replace(built, arguments={**built.arguments, "is_writable": True})
    assert policy.decide(written).verdict is Verdict.ALLOW
    copied = run("/tmp/python3", "x", real_path="/tmp/python3", is_writable=True)
    assert policy.decide(copied).verdict is Verdict.BLOCK
