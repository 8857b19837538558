"""Scripts that cannot be used, and what is said about them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.llm.served_answer import Stop
from paddock.model.errors import InvalidInput
from paddock.world.context import Context
from paddock.world.services.model import Model
from paddock.world.services.model.loading import SCRIPT, load_file, load_words
from paddock.world.services.model.match_words import MATCH
from paddock.world.services.model.reply_words import ERROR, REPLY, USAGE
from paddock.world.services.model.templates import ROOTS
from paddock.world.store import Store

DOCS = Path(__file__).parents[5] / "docs" / "scripted-model.md"


def complaint(directory: Path, text: str) -> str:
    path = directory / "refund.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        load_file(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("turn: []", "refund.yaml:1:1: turn: unknown key", "did you mean turns?"),
        ("{}", "refund.yaml:1:1: the script says nothing", "write turns, rules or otherwise"),
        ("[]", "refund.yaml:1:1: [] is not a mapping", "there are turns, rules"),
        ("turns: {}", "refund.yaml:1:8: turns: not a list", "with a dash"),
        ("turns:\n- hello", "refund.yaml:2:3: turns[0]: 'hello' is not a mapping", "id, match"),
        ("turns:\n- match: {user: x}", "turns[0]: this key is missing: answer", "what the model"),
        ("rules:\n- answer: x", "refund.yaml:2:3: rules[0]: a rule needs a match", "otherwise"),
        ("rules:\n- {match: {}, answer: x, repeat: true}", "rules[0].repeat: unknown key", ""),
        ("turns:\n- {id: a, answer: x}\n- {id: a, answer: y}", ":3:1: two entries have", "its own"),
        (
            "turns:\n- match:\n    usr: x\n  answer: y",
            "refund.yaml:3:5: turns[0].match.usr: unknown key",
            "did you mean user?",
        ),
        ("rules:\n- {match: {user: {}}, answer: x}", "rules[0].match.user: nothing to look", ""),
        ("rules:\n- {match: {user: 5}, answer: x}", "match.user: 5 is not a text", "[one, two]"),
        ("rules:\n- {match: {user: []}, answer: x}", "match.user: an empty list", "at least one"),
        ("rules:\n- {match: {user: {regex: '('}}, answer: x}", "not a regular expression", ""),
        ("rules:\n- {match: {turn: 0}, answer: x}", "match.turn: 0 is not a number here", "1 to"),
        ("rules:\n- {match: {messages: {}}, answer: x}", "match.messages: no number", "at_least"),
        (
            "rules:\n- match: {user: {regex: (?P<a>x)}, system: {regex: (?P<a>y)}}\n  answer: z",
            "two patterns have a group of the same name",
            "rename",
        ),
        ("otherwise: []", "otherwise: [] is not a mapping", "there are text"),
        ("otherwise: {}", "otherwise: an answer without content", "write text:"),
        ("otherwise: {text: x, error: 500}", "an error says nothing else", "remove"),
        ("otherwise: {text: 5}", "otherwise.text: 5 is not a text", "quotes"),
        ("otherwise: {error: 200}", "otherwise.error: 200 is not a number here", "400 to 599"),
        ("otherwise: {error: {message: x}}", "this key is missing: status", "429"),
        ("otherwise: {text: x, stop: never}", "otherwise.stop: not a reason to stop", "there are"),
        ("otherwise: {text: x, stop: max_token}", "not a reason to stop", "did you mean max_tok"),
        ("otherwise: {text: x, delay: soon}", "otherwise.delay:", "write 2s"),
        ("otherwise: {text: x, delay: 601s}", "otherwise.delay: longer than 600 s", "600s or less"),
        ("otherwise: {text: x, usage: {tokens: 1}}", "otherwise.usage.tokens: unknown key", "did"),
        ("otherwise: {tool_calls: []}", "not a list of 1 to 128 calls", "name:"),
        ("otherwise: {tool_calls: [{arguments: {}}]}", "this key is missing: name", "write name:"),
        ("otherwise: {tool_calls: [{name: x, arguments: [1]}]}", "arguments: not a mapping", ""),
        ("otherwise: '{{usr}}'", "{{usr}} begins with nothing that is known", "begin with user"),
        ("otherwise: '{{ .Values }}'", "{{ .Values }} is not a path", "raw: true"),
        ("otherwise: '{{match.a}}'", "{{match.a}}: match finds no such group", "no groups"),
        ("otherwise: '{{user.1}}'", "{{user.1}}: user has no fields", "write {{user}}"),
        ("otherwise: '{{counter}}'", "{{counter}}: no name", "write {{counter.NAME}}"),
        (
            "rules:\n- match: {user: {regex: '(?P<order>x)'}}\n  answer: '{{match.ordre}}'",
            "refund.yaml:3:11: rules[0].answer: {{match.ordre}}",
            "there are 1, order",
        ),
        ("otherwise: x\nstrict: 1", "refund.yaml:2:9: strict: 1 is neither", "true or false"),
        ("otherwise: x\nchunk: 0", "chunk: 0 is not a number here", "1 to 100000"),
        ("otherwise: x: y", "not YAML", "quotes"),
        ("otherwise: yes", "a bare yes", "true"),
    ],
)
def test_mistake_is_named_with_its_place_and_a_hint(
    tmp_path: Path, text: str, said: str, hint: str
) -> None:
    got = complaint(tmp_path, text)
    assert said in got and hint in got, got
    assert got.count("hint:") >= bool(hint)


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    got = complaint(tmp_path, "turns:\n- {match: {turn: x}, answer: 5}\nrules: 1\nchunk: -1")
    assert got.count("refund.yaml:") == 4


def test_script_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"missing\.yaml cannot be read: No such file"):
        load_file(tmp_path / "missing.yaml")
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="is not text"):
        load_file(tmp_path / "x.yaml")


def test_script_that_is_too_long_is_refused(tmp_path: Path) -> None:
    assert "at most 1048576" in complaint(tmp_path, "otherwise: " + "x" * (1 << 20))


def test_mistake_in_a_script_of_the_paddock_file_names_its_key() -> None:
    with pytest.raises(
        InvalidInput, match=r"script\.turns\[0\]\.answr: unknown key\n  hint: did you mean answer"
    ):
        load_words({"turns": [{"answr": "x"}]})


@for_each(
    "word",
    [*SCRIPT, *MATCH, *REPLY, *ERROR, *USAGE, *ROOTS, *[one.value for one in Stop], *Model.options],
)
def test_every_word_of_a_script_is_documented(word: str) -> None:
    code = " ".join(re.findall(r"`[^`\n]+`", DOCS.read_text()))
    assert re.search(rf"\b{word}\b", code), f"docs/scripted-model.md does not name {word}"


def test_script_that_is_gone_does_not_hide_what_was_said(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.db") as store:
        model = Model(Context("m", "h", 443, store, options={"script": "gone.yaml"}))
        assert model.show()["script"] == "(cannot be read)"


@pytest.mark.parametrize("given", [None, 5, "", []])
def test_model_without_a_script_does_not_start(tmp_path: Path, given: Any) -> None:
    with Store.open(tmp_path / "x.db") as store:
        options = {} if given is None else {"script": given}
        with pytest.raises(InvalidInput, match="no script"):
            Model(Context("m", "h", 443, store, options=options)).check()
