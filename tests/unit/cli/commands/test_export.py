"""`paddock export`: each format is what its name says, and a file appears only when it is whole."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import threading
from pathlib import Path

import pytest

from paddock.cli.commands.export import FORMATS
from paddock.cli.output import write_pieces
from paddock.journal.export.formats import Format
from paddock.model.errors import IntegrityError, InvalidInput
from unit.cli.conftest import Call
from unit.cli.past import make_run, paddock, search


def test_every_format_of_the_journal_is_offered() -> None:
    assert sorted(FORMATS) == sorted(Format)


def test_formats_are_what_they_say(home: Path, call: Call) -> None:
    directory = make_run(home, "r")
    assert call("export", "r", "--format", "jsonl").out == (
        (directory / "000001.jsonl").read_text()
    )
    rows = list(csv.DictReader(io.StringIO(call("export", "r", "--format", "csv").out)))
    assert [row["step"] for row in rows] == ["1", "2", "3", "4"]
    spans = call("export", "r", "--format", "otel").json["resourceSpans"][0]["scopeSpans"][0]
    assert len(spans["spans"]) == 5
    assert call("export", "r", "--format", "har").json["log"]["entries"] == []


@pytest.mark.parametrize("form", FORMATS)
def test_file_has_what_the_output_would_have(
    form: str, home: Path, call: Call, tmp_path: Path
) -> None:
    make_run(home, "r")
    assert call("export", "r", "--format", form, "-o", str(tmp_path / "out")).out == ""
    written = (tmp_path / "out").read_bytes()
    assert written.decode() == call("export", "r", "--format", form).out
    assert sorted(os.listdir(tmp_path)) == ["home", "out"]


@pytest.mark.parametrize("words", [[], ["--format", "pdf"], ["--format"]])
def test_format_is_chosen_and_known(words: list[str], home: Path, call: Call) -> None:
    said = call("export", "r", *words)
    assert said.code == 2
    assert "--format" in said.err


@pytest.mark.parametrize("name", ["no/such/place", "", "home"])
def test_place_that_cannot_be_written_is_a_sentence(
    name: str, home: Path, call: Call, tmp_path: Path
) -> None:
    make_run(home, "r")
    said = call("export", "r", "--format", "csv", "-o", str(tmp_path / name))
    assert said.code == 2
    assert said.err.startswith("paddock: -o: ")


def test_what_fails_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    def pieces():  # type: ignore[no-untyped-def]
        yield "new"
        raise IntegrityError("half way")

    (tmp_path / "out").write_text("old")
    with pytest.raises(IntegrityError):
        write_pieces(pieces(), tmp_path / "out")
    assert (tmp_path / "out").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_pipe_or_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_pieces(["a", "b"], pipe)
    reader.join(timeout=10)
    assert got == ["ab"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_link_is_followed_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_pieces(["new"], tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_full_disk_is_a_sentence() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this host has no /dev/full")
    with pytest.raises(InvalidInput, match="No space left"):
        write_pieces(["x" * 100_000], Path("/dev/full"))


def test_damaged_journal_is_a_sentence(home: Path, call: Call) -> None:
    path = make_run(home, "r") / "000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = b'{"after":"x"}\n'
    path.write_bytes(b"".join(lines))
    for form in FORMATS:
        said = call("export", "r", "--format", form)
        assert said.code == 1, form
        assert said.err.startswith("paddock: ")


def test_json_of_an_export_is_ascii_or_utf8_whatever_the_terminal_speaks(home: Path) -> None:
    make_run(home, "r", [search("☃")])
    done = paddock("export", "r", "--format", "jsonl", PADDOCK_HOME=str(home),
                   PYTHONIOENCODING="ascii")  # fmt: skip
    assert done.returncode == 0
    records = map(json.loads, done.stdout.splitlines())
    assert "☃" in [record["body"].get("arguments", {}).get("query") for record in records]
