"""What a rule says goes on beside an agent, and which actions it means."""

from __future__ import annotations

from typing import Any

import pytest

from cases import for_each
from paddock.model.action import Action, Effect, Kind
from paddock.model.errors import InvalidInput
from paddock.policy.background import USUAL, background_rule
from paddock.policy.file import dump, load
from paddock.policy.problems import PolicyError
from paddock.policy.terms import json_schema

FILE = (
    "version: 1\nagent: a\nstage: broad\nrules:\n  - {id: r, match: {kind: exec}, decide: allow}\n"
)


def http(method: str = "POST", path: str = "/v1/traces", host: str = "c.example") -> Action:
    arguments: dict[str, Any] = {"method": method, "path": path, "host": host, "port": 443}
    return Action(Kind.HTTP, f"{method} {host}", arguments, Effect.WRITE)


def connect(host: str = "c.example", port: int = 4317) -> Action:
    return Action(Kind.CONNECT, host, {"host": host, "port": port}, Effect.WRITE)


def question(host: str = "c.example") -> Action:
    return Action(Kind.DNS, host, {"host": host, "name": host, "type": "A"}, Effect.READ)


@for_each(
    ("text", "action"),
    [
        ("c.example", http()),
        ("c.example", http("GET", "/anything")),
        ("c.example", connect()),
        ("c.example", question()),
        ("*.c.example", http(host="eu.c.example")),
        ("C.example/v1/traces", http()),
        ("c.example/v1/*", http()),
        ("c.example/v1/**", http(path="/v1/a/b")),
        ("c.example/v1/traces", http(path="/v1/tr%61ces")),
        ("POST c.example/v1/traces", http()),
        ("post c.example", http()),
        ("POST c.example/v1/traces", question()),
        ("c.example:443/v1/traces", http()),
        ("c.example:4317", connect()),
        (USUAL[0], http(path="/v1/traces/ingest", host="api.openai.com")),
    ],
)
def test_rule_means(text: str, action: Action) -> None:
    assert background_rule(text).matches(action)


@for_each(
    ("text", "action"),
    [
        ("c.example", http(host="evilc.example")),
        ("c.example", http(host="eu.c.example")),
        ("*.c.example", http(host="c.example")),
        ("POST c.example", http("DELETE")),
        ("c.example/v1/traces", http(path="/v1/traces/more")),
        ("c.example/v1/traces", http(path="/v1/traces/")),
        ("c.example/v1/*", http(path="/v1/a/b")),
        ("c.example/v1/**", http(path="/v1/../v2")),
        ("c.example/v1/**", http(path="/v1/%2e%2e/v2")),
        ("c.example/v1/**", http(path="/v1/a%2fb")),
        ("c.example/v1/**", http(path="//v1/a")),
        ("c.example:8443", http()),
        ("c.example:4318", connect()),
        ("c.example/v1/traces", connect()),
        ("POST c.example", connect()),
        ("c.example", question("d.example")),
        ("c.example", Action(Kind.MODEL, "gpt", {"host": "c.example"}, Effect.READ)),
        ("c.example", Action(Kind.TOOL, "c.example", {"host": "c.example"}, Effect.READ)),
        ("c.example", Action(Kind.EXEC, "curl", {"host": "c.example"}, Effect.READ)),
        ("c.example", Action(Kind.HTTP, "x", {"host": 7}, Effect.READ)),
        ("c.example", Action(Kind.HTTP, "x", {"host": "c.example", "method": "GET"}, Effect.READ)),
        (USUAL[0], http(path="/v1/traces/ingest", host="api.openai.com.evil.example")),
        (USUAL[0], http("GET", "/v1/traces/ingest", "api.openai.com")),
        (USUAL[0], http(path="/v1/files", host="api.openai.com")),
        (USUAL[0], connect("api.openai.com", 443)),
    ],
)
def test_rule_does_not_mean(text: str, action: Action) -> None:
    assert not background_rule(text).matches(action)


@for_each(
    "text",
    [
        "", "*", "POST *", "*/v1/traces", "**", "*.com", "*.co.uk", "a*.example", "/v1/traces",
        "POST /v1/traces", "https://c.example/v1", "c.example:0", "c.example:99999",
        "c.example/../v1", "c.example//v1", "c.example/a**", "POST c.example /v1", "P0ST c.example",
        "c.example\n", " c.example", "c.example:port", "c.example/" + "x" * 600, "127.1",
    ],
)  # fmt: skip
def test_what_names_no_host_or_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        background_rule(text)


def test_a_mistake_in_the_file_is_found_where_it_stands() -> None:
    with pytest.raises(PolicyError) as found:
        load(FILE + "replay:\n  beside:\n    - c.example\n    - '*'\n")
    (problem,) = found.value.problems
    assert "every host" in problem.message
    assert problem.line == 9


@pytest.mark.parametrize("value", ["", "null", "c.example", "[7]", "[null]"])
def test_what_is_no_list_of_texts_is_refused(value: str) -> None:
    with pytest.raises(PolicyError):
        load(f"{FILE}replay: {{beside: {value}}}\n")


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("", None),
        ("replay: {vary: ['body.id=uuid']}\n", None),
        ("replay: {beside: []}\n", ()),
        ("replay: {beside: [a.example, POST b.example/v1/*]}\n",
         ("a.example", "POST b.example/v1/*")),
    ],
)  # fmt: skip
def test_an_empty_list_is_not_the_same_as_none_and_is_written_back(
    said: str, means: tuple[str, ...] | None
) -> None:
    policy = load(FILE + said)
    assert policy.terms.background == means
    again = load(dump(policy))
    assert again.terms == policy.terms
    assert again.digest == policy.digest


def test_terms_with_and_without_the_key_are_not_the_same() -> None:
    digests = {load(FILE + one).digest for one in ("", "replay: {beside: []}\n")}
    assert len(digests) == 2


def test_the_schema_for_editors_has_the_key() -> None:
    shape = json_schema()["properties"]["replay"]["properties"]["beside"]
    assert shape["type"] == "array" and shape["items"]["type"] == "string"
