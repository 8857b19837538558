"""Names of snapshots: listed, used instead of the id, given once, free again when removed."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance.conftest import MakeBox
from paddock import Conflict, InvalidInput, NotFound, Sandbox
from paddock.cli.main import main

pytestmark = pytest.mark.usefixtures("private_home")


def test_named_snapshot_is_listed_used_and_removed_by_its_name(make_box: MakeBox) -> None:
    box = make_box()
    box.files.write("f", "kept")
    snapshot = box.snapshot(name="before-upgrade")
    unnamed = box.snapshot()
    assert unnamed != snapshot
    listed = {info.snapshot_id: info for info in Sandbox.list_snapshots()}
    assert listed[snapshot].name == "before-upgrade"
    assert listed[snapshot].size_bytes >= 4
    assert abs(listed[snapshot].created_at - time.time()) < 3600
    assert listed[unnamed].name is None
    assert make_box(snapshot="before-upgrade").files.read("f") == "kept"
    Sandbox.delete_snapshot("before-upgrade")
    with pytest.raises(NotFound, match="before-upgrade"):
        make_box(snapshot="before-upgrade")
    assert make_box(snapshot=unnamed).files.read("f") == "kept"


def test_name_of_a_snapshot_is_given_once(make_box: MakeBox) -> None:
    box = make_box()
    with ThreadPoolExecutor(4) as pool:
        works = [pool.submit(box.snapshot, "taken") for _ in range(4)]
    failures = [work.exception() for work in works if work.exception() is not None]
    assert len(failures) == 3
    assert all(isinstance(failure, Conflict) for failure in failures)
    for name in ("../x", "", "snap-" + "0" * 32):
        with pytest.raises(InvalidInput, match="snapshot"):
            box.snapshot(name=name)
    Sandbox.delete_snapshot("taken")
    assert box.snapshot(name="taken")


def test_command_line_shows_and_uses_names(
    make_box: MakeBox, private_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    box = make_box()
    box.files.write("f", "kept")
    snapshot = box.snapshot(name="shown")
    assert main(["snapshot", "list"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "ID", "SIZE", "CREATED"]
    assert any(row.split()[:2] == ["shown", snapshot] for row in rows)
    assert main(["snapshot", "list", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed["shown"]["id"] == snapshot
    assert set(listed["shown"]) == {"name", "id", "size_bytes", "files", "created_at"}
    assert main(["snapshot", "create", box.sandbox_id, "--name", "shown"]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["snapshot", "verify", "shown"]) == 0
    assert main(["snapshot", "remove", "shown"]) == 0
    assert main(["snapshot", "remove", "shown"]) == 1
    assert "no snapshot 'shown'" in capsys.readouterr().err
