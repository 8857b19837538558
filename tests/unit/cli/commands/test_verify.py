"""`paddock verify` and `paddock prove`: what an auditor does, with the public key only."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.cli.exit_codes import ExitCode
from paddock.model.events import Marked
from unit.cli.conftest import Call
from unit.cli.past import begin_run, make_run, paddock, search


def changed(directory: Path, line: int, old: bytes, new: bytes) -> None:
    path = directory / "000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new)
    path.write_bytes(b"".join(lines))


def line_of(directory: Path, text: bytes) -> int:
    lines = (directory / "000001.jsonl").read_bytes().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_honest_journal_is_intact(home: Path, call: Call) -> None:
    make_run(home, "r")
    said = call("verify", "r", "--closed")
    assert said.code == 0
    assert said.out.startswith("run r: ")
    assert "records intact" in said.out


def test_changed_record_is_found_and_its_place_named(home: Path, call: Call) -> None:
    directory = make_run(home, "r")
    line = line_of(directory, b'"ticket 1"')
    changed(directory, line, b"ticket 1", b"ticket 7")
    said = call("verify", "r")
    assert said.code == 1
    assert f"record {line - 1}: changed" in said.out
    report = call("verify", "r", "--json")
    assert report.code == 1
    assert report.json["ok"] is False
    [problem] = report.json["problems"]
    assert (problem["finding"], problem["n"]) == ("changed", line - 1)
    assert problem["segment"] == "000001.jsonl"


def test_run_without_an_end_is_interrupted(home: Path, call: Call) -> None:
    begin_run(home, "r").abandon()
    said = call("verify", "r")
    assert said.code == ExitCode.INTERRUPTED
    assert "interrupted" in said.out
    report = call("verify", "r", "--json").json
    assert (report["ok"], report["status"], report["is_running"]) == (False, "interrupted", False)
    said = call("verify", "r", "--closed")
    assert said.code == 1
    assert "truncated" in said.out


def test_run_that_is_being_written_has_no_end_yet(home: Path, call: Call) -> None:
    journal = begin_run(home, "r")
    try:
        journal.append(Marked("x"))
        said = call("verify", "r")
        assert said.code == ExitCode.INTERRUPTED
        assert "still writing" in said.out
    finally:
        journal.abandon()


def test_copy_elsewhere_verifies_with_the_public_key_and_without_a_home(
    home: Path, tmp_path: Path
) -> None:
    directory = make_run(home, "r", [search("x")], result="long " * 10_000)
    shutil.copytree(directory, tmp_path / "copy")
    shutil.copy(home / "keys" / "journal.pub", tmp_path / "auditor.pub")
    elsewhere = tmp_path / "no-home"
    words = ["verify", str(tmp_path / "copy"), "--key", str(tmp_path / "auditor.pub")]
    done = paddock(*words, PADDOCK_HOME=str(elsewhere))
    assert (done.returncode, done.stderr) == (0, "")
    assert not elsewhere.exists()
    [blob] = [path for path in (tmp_path / "copy" / "blobs").rglob("*") if path.is_file()]
    blob.chmod(0o600)
    blob.write_text("other")
    done = paddock(*words, PADDOCK_HOME=str(elsewhere))
    assert done.returncode == 1
    assert "blob changed" in done.stdout


def test_key_of_somebody_else_does_not_verify(home: Path, call: Call, tmp_path: Path) -> None:
    make_run(home, "r")
    make_run(tmp_path / "other", "r")
    said = call("verify", "r", "--key", str(tmp_path / "other" / "keys" / "journal.pub"))
    assert said.code == 1
    assert "wrong key" in said.out


def test_saved_head_finds_a_journal_that_was_replaced_as_a_whole(
    home: Path, call: Call, tmp_path: Path
) -> None:
    directory = make_run(home, "r")
    head = tmp_path / "head.json"
    assert call("verify", "r", "--save-head", str(head)).code == 0
    assert call("verify", "r", "--head", str(head)).code == 0
    shutil.rmtree(directory)
    make_run(home, "r", [search("other"), search("story"), search("told"), search("later")])
    assert call("verify", "r").code == 0  # by itself it looks honest
    said = call("verify", "r", "--head", str(head))
    assert said.code == 1
    assert "replaced" in said.out


def test_saved_head_still_holds_when_the_journal_has_grown(
    home: Path, call: Call, tmp_path: Path
) -> None:
    journal = begin_run(home, "r")
    head = str(tmp_path / "head.json")
    assert call("verify", "r", "--save-head", head).code == ExitCode.INTERRUPTED
    journal.append(Marked("x"))
    journal.close()
    assert call("verify", "r", "--head", head, "--save-head", head).code == 0
    assert json.loads(Path(head).read_text())["size"] > 1


def test_head_of_a_broken_journal_is_not_saved(home: Path, call: Call, tmp_path: Path) -> None:
    directory = make_run(home, "r")
    changed(directory, line_of(directory, b'"ticket 1"'), b"ticket 1", b"ticket 7")
    assert call("verify", "r", "--save-head", str(tmp_path / "head.json")).code == 1
    assert not (tmp_path / "head.json").exists()


def test_exported_records_verify_as_one_file(home: Path, call: Call, tmp_path: Path) -> None:
    make_run(home, "r")
    file = str(tmp_path / "r.jsonl")
    assert call("export", "r", "--format", "jsonl", "-o", file).code == 0
    said = call("verify", file, "--json")
    assert (said.code, said.json["records"]) == (0, call("verify", "r", "--json").json["records"])
    text = Path(file).read_bytes()
    Path(file).write_bytes(text.replace(b"ticket 1", b"ticket 7", 1))
    assert call("verify", file).code == 1


# ---- proofs --------------------------------------------------------------------------------------


def test_proof_of_a_step_verifies_alone(home: Path, tmp_path: Path) -> None:
    make_run(home, "r")
    proof, key = tmp_path / "proof.json", tmp_path / "k.pub"
    done = paddock("prove", "r", "--step", "2", "-o", str(proof), PADDOCK_HOME=str(home))
    assert (done.returncode, done.stdout) == (0, "")
    shutil.copy(home / "keys" / "journal.pub", key)
    words = ["verify", str(proof), "--key", str(key)]
    alone = paddock(*words, PADDOCK_HOME=str(tmp_path / "none"))
    assert alone.returncode == 0
    assert alone.stdout.startswith("step 2 of run r: all 3 records proved")
    assert "One ticket at a time." in alone.stdout
    shown = json.loads(paddock(*words, "--json", PADDOCK_HOME=str(tmp_path / "none")).stdout)
    assert shown["ok"] is True
    assert [record["type"] for record in shown["records"]] == ["proposed", "decided", "settled"]


def test_proof_goes_to_the_output_where_no_file_is_named(home: Path, call: Call) -> None:
    make_run(home, "r")
    assert call("prove", "last", "--step", "1").json["step"] == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [("ticket 1", "ticket 7"), ('"step": 1', '"step": 2'), ('"run": "r"', '"run": "s"'),
     ('"size": ', '"size": 1')],
)  # fmt: skip
def test_changed_proof_proves_nothing(
    old: str, new: str, home: Path, call: Call, tmp_path: Path
) -> None:
    make_run(home, "r")
    proof = tmp_path / "proof.json"
    call("prove", "r", "--step", "1", "-o", str(proof))
    assert old in proof.read_text()
    proof.write_text(proof.read_text().replace(old, new))
    said = call("verify", str(proof), "--json")
    assert said.code == 1
    assert said.json["ok"] is False
    assert call("verify", str(proof)).code == 1


def test_step_that_is_not_there_or_not_signed_cannot_be_proved(home: Path, call: Call) -> None:
    make_run(home, "closed")
    assert call("prove", "closed", "--step", "9").err == "paddock: there is no step 9\n"
    make_run(home, "open", [search("x")], is_closed=False)
    said = call("prove", "open", "--step", "1")
    assert said.code == 1
    assert "no signed head covers" in said.err


# ---- what cannot be checked ----------------------------------------------------------------------


@pytest.mark.parametrize("words", [["nothing"], ["./nothing"], ["last"], [""]])
def test_what_is_not_there_is_not_called_broken(words: list[str], home: Path, call: Call) -> None:
    said = call("verify", *words)
    assert said.code == 2
    assert said.err.startswith("paddock: ")


def test_home_without_a_key_says_how_to_give_one(home: Path, call: Call, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "other", "r")
    said = call("verify", str(directory))
    assert said.code == 2
    assert "--key FILE" in said.err


@pytest.mark.parametrize("option", ["--key", "--head"])
@pytest.mark.parametrize("content", [None, b"", b"x", b"{}", b"\xff\xfe", b"[" * 100_000])
def test_key_or_head_that_is_none_is_a_sentence(
    option: str, content: bytes | None, home: Path, call: Call, tmp_path: Path
) -> None:
    make_run(home, "r")
    if content is not None:
        (tmp_path / "f").write_bytes(content)
    said = call("verify", "r", option, str(tmp_path / "f"))
    assert said.code == 2
    assert said.err.startswith("paddock: ")


@pytest.mark.parametrize(
    "content",
    [b"x", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"after":', b'{"purpose":1}'],
)
def test_file_that_is_neither_journal_nor_proof_is_a_sentence(
    content: bytes, home: Path, call: Call, tmp_path: Path
) -> None:
    make_run(home, "r")
    (tmp_path / "f").write_bytes(content)
    said = call("verify", str(tmp_path / "f"))
    assert said.code in (1, 2)
    assert said.err.startswith("paddock: ") or "not a proof" in said.out


def test_empty_file_is_a_journal_that_lost_everything(
    home: Path, call: Call, tmp_path: Path
) -> None:
    make_run(home, "r")
    (tmp_path / "f").touch()
    said = call("verify", str(tmp_path / "f"))
    assert said.code == 1
    assert "no record at all" in said.out


def test_options_for_journals_are_refused_for_a_proof(
    home: Path, call: Call, tmp_path: Path
) -> None:
    make_run(home, "r")
    proof = str(tmp_path / "p.json")
    call("prove", "r", "--step", "1", "-o", proof)
    assert call("verify", proof, "--closed").code == 2


def test_name_of_a_run_cannot_fake_a_line_of_the_report(
    home: Path, call: Call, tmp_path: Path
) -> None:
    key = begin_run(home, "x\nrun y: 5 records intact\x1b[2J")
    key.abandon()
    out = call("verify", str(key.directory)).out
    assert out.count("\n") == 1
    assert "\x1b" not in out


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(data=st.data())
def test_any_flipped_byte_is_found(
    data: st.DataObject, home: Path, call: Call, tmp_path: Path
) -> None:
    directory = home / "runs" / "r"
    if not directory.exists():
        make_run(home, "r", [search("x")])
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(directory, copy)
    content = bytearray((copy / "000001.jsonl").read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    (copy / "000001.jsonl").write_bytes(content)
    said = call("verify", str(copy), "--closed")
    assert said.code == 1
    assert "000001.jsonl" in said.out
