"""Which turn answers which request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unit.world.services.model.asking import CALL, USER, Got, Say, Talk, results, said, talk, user

THREE = {"turns": [{"answer": "one"}, {"answer": "two"}, {"answer": "three"}]}


def go_on(model: Talk, history: list[Any], text: str = "go on") -> tuple[Got, list[Any]]:
    got = model.chat(history)
    return got, [*history, said(got), user(text)]


def test_turns_answer_in_order(say: Say) -> None:
    model, history = say(THREE), [user(USER)]
    for expected in ("one", "two", "three"):
        got, history = go_on(model, history)
        assert got.text == expected
    assert model.chat(history).status == 400


def test_request_that_is_sent_again_gets_its_answer_again(say: Say) -> None:
    model, history = say(THREE), [user(USER)]
    _, history = go_on(model, history)
    assert model.chat([user(USER)]).text == "one"
    assert model.chat(history).text == "two"
    assert model.chat(history).text == "two"


def test_conversations_with_other_beginnings_do_not_disturb_each_other(say: Say) -> None:
    model = say(THREE)
    here, there = [user("here")], [user("there")]
    for expected in ("one", "two", "three"):
        got, here = go_on(model, here)
        assert got.text == expected
        got, there = go_on(model, there)
        assert got.text == expected


def test_conversation_can_go_on_from_an_earlier_point_in_two_ways(say: Say) -> None:
    branches = {
        "turns": [
            {"answer": "start"},
            {"match": {"user": "left"}, "answer": "L"},
            {"match": {"user": "right"}, "answer": "R"},
            {"match": {"user": "right"}, "answer": "R again"},
        ]
    }
    model = say(branches)
    start, _ = go_on(model, [user(USER)])
    base = [user(USER), said(start)]
    left, left_history = go_on(model, [*base, user("left")], "right")
    right, right_history = go_on(model, [*base, user("right")], "right")
    assert (left.text, right.text) == ("L", "R")
    assert model.chat(left_history).text == "R"  # the other branch used it, this one did not
    assert model.chat(right_history).text == "R again"


def test_turn_that_is_repeated_is_not_used_up(say: Say) -> None:
    turns = [{"match": {"user": "hi"}, "repeat": True, "answer": "hello"}, {"answer": "bye"}]
    model, history = say({"turns": turns}), [user("hi")]
    got, history = go_on(model, history, "hi")
    assert got.text == "hello"
    got, history = go_on(model, history, "other")
    assert got.text == "hello"
    assert model.chat(history).text == "bye"


def test_error_of_a_turn_is_given_once(say: Say) -> None:
    model = say(
        {"turns": [{"answer": {"error": 503}}, {"answer": {"error": 429}}, {"answer": "ok"}]}
    )
    assert [model.chat(USER).status for _ in range(4)] == [503, 429, 200, 200]


def test_error_before_stays_used_later_in_the_conversation(say: Say) -> None:
    model = say({"turns": [{"answer": {"error": 503}}, {"answer": "ok"}, {"answer": "later"}]})
    model.chat(USER)
    _, history = go_on(model, [user(USER)])
    assert model.chat(history).text == "later"


def test_error_of_a_rule_and_of_a_repeated_turn_stays(say: Say) -> None:
    failing = {"match": {"user": "x"}, "answer": {"error": 500}}
    for script in ({"rules": [failing]}, {"turns": [{**failing, "repeat": True}]}):
        model = say(script)
        assert [model.chat("x").status for _ in range(3)] == [500, 500, 500]


def test_turns_come_before_rules_and_rules_before_otherwise(say: Say) -> None:
    script = {
        "turns": [{"answer": "turn"}],
        "rules": [{"match": {"user": "refund"}, "answer": "rule"}],
        "otherwise": "otherwise",
    }
    model, history = say(script), [user(USER)]
    got, history = go_on(model, history, "refund")
    assert got.text == "turn"
    got, history = go_on(model, history, "something else")
    assert got.text == "rule"
    assert model.chat(history).text == "otherwise"


def test_first_rule_that_matches_wins_any_number_of_times(say: Say) -> None:
    rules = [{"match": {"user": "a"}, "answer": "first"}, {"match": {"user": "ab"}, "answer": "x"}]
    model = say({"rules": rules})
    assert [model.chat("ab").text for _ in range(3)] == ["first"] * 3


def test_history_that_was_rewritten_does_not_start_the_turns_again(say: Say) -> None:
    model, history = (
        say({"turns": [{"answer": {"tool_calls": [CALL]}}, *THREE["turns"]]}),
        [user(USER)],
    )
    asked = model.chat(history)
    history = [*history, said(asked), *results(asked, "a very long result")]
    one, history = go_on(model, history)
    assert one.text == "one"
    history[2] = {**history[2], "content": "[cleared]"}
    assert model.chat(history).text == "two"


def test_other_system_prompt_model_and_ids_are_the_same_conversation(say: Say) -> None:
    model = say({"turns": [{"answer": {"tool_calls": [CALL]}}, {"answer": "done"}]})
    asked = model.chat([{"role": "system", "content": "It is noon."}, user(USER)])
    message = said(asked)
    message["tool_calls"][0]["id"] = "mine"
    result = {"role": "tool", "tool_call_id": "mine", "content": "x"}
    system = {"role": "system", "content": "It is one."}
    assert model.chat([system, user(USER), message, result], model="gpt-y").text == "done"


def test_parallel_agents_with_the_same_question_each_get_their_turn(say: Say) -> None:
    turns = [
        {"match": {"system": "guard"}, "answer": "harmless"},
        {"match": {"system": "clerk"}, "answer": "hello"},
        {"match": {"system": "clerk"}, "answer": "bye"},
    ]
    model = say({"turns": turns})
    clerk = [{"role": "system", "content": "You are a clerk"}, user(USER)]
    guard = [{"role": "system", "content": "You are a guard"}, user(USER)]
    hello, clerk = go_on(model, clerk)
    assert hello.text == "hello" and model.chat(guard).text == "harmless"
    assert model.chat(clerk).text == "bye"


def test_request_that_nothing_matches_shows_what_was_asked_and_what_was_left(say: Say) -> None:
    model = say(
        "turns:\n"
        "  - match: {user: hello}\n"
        "    answer: hi\n"
        "  - id: by-hand\n"
        "    match: {tool_result: {name: find, contains: paid}}\n"
        "    answer: done\n"
        "rules:\n"
        "  - match: {model: claude-*}\n"
        "    answer: never\n"
    )
    tools = [{"type": "function", "function": {"name": "find", "parameters": {}}}]
    got = model.chat("What is the time?", tools=tools)
    assert got.status == 400
    assert got.error["type"] == "invalid_request_error"
    assert got.error["code"] == "script_has_no_answer"
    for part in (
        "script.yaml",
        "turn 1, 1 messages, model gpt-x, tools offered: find",
        "'What is the time?'",
        "turns[0] (line 2) wants: user contains 'hello'",
        "by-hand (line 4) wants: a result of find contains 'paid'",
        "rules[0] (line 8) wants: model is claude-*",
    ):
        assert part in got.error["message"], got.error["message"]


def test_refusal_has_the_shape_of_whoever_was_asked(say: Say) -> None:
    model = say({"turns": [{"match": {"user": "never"}, "answer": "x"}]})
    got = model.messages("What?")
    assert got.status == 400 and got.json["type"] == "error"
    assert got.error["type"] == "invalid_request_error" and "'What?'" in got.error["message"]
    assert got.json["request_id"] == got.headers["request-id"]


def test_request_that_nothing_matches_uses_nothing_up(say: Say) -> None:
    model = say({"turns": [{"match": {"user": "refund"}, "answer": "one {{counter.a}}"}]})
    assert model.chat("What?").status == 400
    assert model.chat(USER).text == "one 1"


def test_script_that_is_not_strict_says_something_plain(say: Say) -> None:
    model = say({"strict": False, "turns": [{"match": {"user": "never"}, "answer": "x"}]})
    assert model.chat("What?").text == "(The script has no answer to this.)"


def test_model_that_the_script_does_not_list_does_not_exist(say: Say) -> None:
    model = say({"models": ["gpt-x"], "otherwise": "hi"})
    assert model.chat(USER).text == "hi"
    got = model.chat(USER, model="gpt-z")
    assert (got.status, got.error["code"]) == (404, "model_not_found")
    assert model.messages(USER).error["type"] == "not_found_error"


def test_same_requests_give_the_same_bytes_and_the_same_state(tmp_path: Path) -> None:
    seen = set()
    for run in range(5):
        model = talk(tmp_path, THREE, f"{run}.db")
        history, bodies = [user(USER)], []
        for _ in range(3):
            got, history = go_on(model, history)
            bodies.append(got.body)
        bodies += [model.responses("x", stream=True).body, model.messages("y", stream=True).body]
        seen.add((*bodies, model.store.digest()))
        model.store.close()
    assert len(seen) == 1


def test_ids_do_not_depend_on_other_conversations(tmp_path: Path) -> None:
    alone, busy = talk(tmp_path, THREE, "a.db"), talk(tmp_path, THREE, "b.db")
    busy.chat("something else")
    first, second = alone.chat(USER).json, busy.chat(USER).json
    assert first["id"] == second["id"] != alone.chat(USER).json["id"]
    alone.store.close()
    busy.store.close()


def test_forked_world_goes_on_from_where_it_was_and_apart(say: Say, tmp_path: Path) -> None:
    model = say(THREE)
    _, history = go_on(model, [user(USER)])
    model.store.fork(tmp_path / "fork.db").close()
    fork = talk(tmp_path, THREE, "fork.db")
    assert fork.chat(history).text == "two"
    model.store.seal()
    before = model.store.digest()
    assert model.chat(history).text == "two"
    assert model.store.digest() != before
    model.store.reset()
    assert model.store.digest() == before
    fork.store.close()


def test_show_has_turns_conversations_tokens_and_what_did_not_match(say: Say) -> None:
    script = {
        "turns": [{"id": "greet", "answer": "hi"}, {"match": {"user": "bye"}, "answer": "x"}],
        "rules": [{"match": {"user": "again"}, "answer": "y"}],
    }
    model = say(script)
    _, history = go_on(model, [user(USER)], "again")
    _, history = go_on(model, history, "nothing fits this")
    model.chat(history)
    shown = model.model.show()
    assert shown["turns"] == {"greet": 1, "turns[1]": 0}
    assert shown["rules"] == {"rules[0]": 1}
    assert [one["begins"] for one in shown["conversations"]] == [USER]
    assert shown["tokens"]["input"] > shown["tokens"]["output"] == 2
    assert "nothing fits this" in shown["unmatched"][0]["why"]


@pytest.mark.parametrize("kind", ["chat", "messages", "responses"])
def test_usage_grows_with_the_text_and_is_the_same_each_time(say: Say, kind: str) -> None:
    model = say({"otherwise": "four words of text"})
    ask = getattr(model, kind)
    short, long = ask("hello").json["usage"], ask("hello" * 100).json["usage"]
    assert short == ask("hello").json["usage"]
    name = "prompt_tokens" if kind == "chat" else "input_tokens"
    assert long[name] - short[name] == 123
