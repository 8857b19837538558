"""`paddock policy check`, `test` and `schema`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases import for_each
from unit.cli.conftest import Call
from unit.cli.past import FILE

BAD = FILE.replace("decide: block\n    why: Dep", "decide: blok\n    why: Dep")
FAILING = FILE.replace("not_match: [{argv: [ls]}]", "not_match: [{argv: [pip]}]")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE)
    return path


def test_file_with_doubts_only_is_fine_and_says_them(file: Path, call: Call) -> None:
    said = call("policy", "check")
    assert said.code == 0
    assert all(": note: " in one or ": warning: " in one or one.startswith("  hint: ")
               for one in said.out.splitlines())  # fmt: skip
    assert "paddock.yaml:" in said.out


def test_file_without_a_flaw_is_ok(file: Path, call: Call) -> None:
    file.write_text(
        "version: 1\nagent: a\nstage: observe\ntools: {search: {effect: read}}\nrules: []\n"
    )
    assert call("policy", "check").out == "paddock.yaml: ok\n"


def test_mistake_has_file_line_and_column_and_ends_with_one(file: Path, call: Call) -> None:
    file.write_text(BAD)
    said = call("policy", "check", "paddock.yaml")
    assert said.code == 1
    line = next(n for n, text in enumerate(BAD.splitlines(), 1) if "blok" in text)
    assert said.out.startswith(f"paddock.yaml:{line}:")
    assert "error: " in said.out
    assert "hint: " in said.out


def test_several_files_are_checked_and_one_bad_one_is_enough(file: Path, call: Call) -> None:
    Path("bad.yaml").write_text(BAD)
    said = call("policy", "check", "paddock.yaml", "bad.yaml")
    assert said.code == 1
    assert {line.split(":")[0] for line in said.out.splitlines() if line[0] != " "} == {
        "paddock.yaml", "bad.yaml"
    }  # fmt: skip
    found = call("policy", "check", "paddock.yaml", "bad.yaml", "--json").json
    assert {one["file"] for one in found} == {"paddock.yaml", "bad.yaml"}
    assert {"level", "line", "column", "code", "message", "hint", "rule_id"} < set(found[0])


def test_sarif_is_one_run_over_all_files(file: Path, call: Call) -> None:
    Path("bad.yaml").write_text(BAD)
    log = call("policy", "check", "--sarif", "paddock.yaml", "bad.yaml").json
    assert log["version"] == "2.1.0"
    [run] = log["runs"]
    places = [one["locations"][0]["physicalLocation"] for one in run["results"]]
    assert {one["artifactLocation"]["uri"] for one in places} == {"paddock.yaml", "bad.yaml"}


def test_text_can_come_from_the_input(file: Path, call: Call) -> None:
    said = call("policy", "check", "-", stdin=BAD.encode())
    assert said.code == 1
    assert said.out.startswith("-:")


@for_each("command", ["check", "test", "explain", "replay"])
@for_each(
    "content", [None, b"", b"\xff\xfe", b"a: [", b"- 1", b"version: 1", b"\x00", b"x" * (17 << 20)]
)
def test_file_that_is_none_is_a_sentence(
    command: str, content: bytes | None, file: Path, home: Path, call: Call
) -> None:
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    more = {"explain": ["--exec", "ls"], "replay": ["--all"]}.get(command, [])
    said = call("policy", command, "paddock.yaml", *more)
    assert said.code in (1, 2)
    assert "paddock.yaml" in said.out + said.err
    assert "Traceback" not in said.err


def test_directory_is_no_file(file: Path, call: Call) -> None:
    assert "cannot be read" in call("policy", "check", ".").err


def test_each_example_has_its_line(file: Path, call: Call) -> None:
    said = call("policy", "test")
    assert said.code == 0
    assert said.out.splitlines() == [
        'ok    no-installs: match {"argv": ["pip", "install", "x"]}',
        'ok    no-installs: not_match {"argv": ["ls"]}',
    ]


def test_example_that_fails_ends_with_one_and_says_why(file: Path, call: Call) -> None:
    file.write_text(FAILING)
    said = call("policy", "test")
    assert said.code == 1
    assert 'FAIL  no-installs: not_match {"argv": ["pip"]}: the rule matches it' in said.out
    tried = call("policy", "test", "--json").json
    assert [one["ok"] for one in tried] == [True, False]
    assert tried[1]["why_not"] == "the rule matches it"


def test_file_that_is_wrong_otherwise_does_not_pass_its_test(file: Path, call: Call) -> None:
    again = FILE.split("rules:\n")[1].split("  - id: no-dumps")[0]
    file.write_text(FILE + again)
    said = call("policy", "test")
    assert said.code == 2
    assert "no-installs" in said.err


def test_file_without_examples_says_so(file: Path, call: Call) -> None:
    file.write_text(
        "version: 1\nagent: a\nstage: observe\ntools: {search: {effect: read}}\nrules: []\n"
    )
    said = call("policy", "test")
    assert (said.code, said.err) == (0, "paddock: paddock.yaml: no rule has examples\n")


def test_schema_is_a_json_schema(call: Call) -> None:
    schema = json.loads(call("policy", "schema").out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "rules" in schema["properties"]


def test_what_a_replay_would_refuse_is_told_at_its_line(tmp_path: Path, call: Call) -> None:
    file = tmp_path / "paddock.yaml"
    file.write_text(
        "version: 1\nagent: a\nstage: observe\nnetwork: {allow: []}\n"
        "replay:\n  vary:\n    - body.sent_at=date\n    - body.id\n"
    )
    said = call("policy", "check", str(file))
    assert said.code == 1
    assert f"{file}:8:7: error: replay.vary: 'body.id' is not PLACE=SHAPE" in said.out
    assert "sent_at" not in said.out
