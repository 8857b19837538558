"""The files that an agent left, over those that it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.model.errors import InvalidInput, NotFound
from paddock.model.events import Configured, MountRecorded
from paddock.run.scenarios.end_state import FilesLeft
from paddock.state.trees.store import TreeStore

CWD = "/srv/project"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """What the agent wrote."""
    place = tmp_path / "upper"
    (place / "out").mkdir(parents=True)
    (place / "out/report.md").write_text("refunded")
    (place / "out/raw").write_bytes(b"\xff")
    (place / "changed.txt").write_text("new")
    (place / "link").symlink_to("/etc")
    return place


@pytest.fixture
def files(tmp_path: Path, written: Path) -> FilesLeft:
    source = tmp_path / "project"
    source.mkdir()
    for name, text in {"changed.txt": "old", "same.txt": "same", ".env": "KEY=1"}.items():
        (source / name).write_text(text)
    return _left(tmp_path, written, source)


def _left(tmp_path: Path, written: Path, source: Path) -> FilesLeft:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    store = TreeStore(tmp_path / "trees")
    recorded = store.recorder({CWD: written, "/home/user": home}).record()
    configured = Configured(
        cwd=CWD,
        mounts=[MountRecorded(source=str(source), target=CWD, mode="overlay")],
        hidden=[f"{CWD}/.env"],
    )
    return FilesLeft(store, recorded.tree, configured)


def test_what_the_agent_wrote_lies_over_what_it_found(files: FilesLeft) -> None:
    assert files["out/report.md"] == "refunded"
    assert files["changed.txt"] == "new"
    assert files["same.txt"] == "same"
    assert files[f"{CWD}/./out/report.md"] == "refunded"
    assert files.read_bytes("out/raw") == b"\xff"
    assert "nothing" not in files and "out/nothing" not in files
    assert "/home/user/nothing" not in files
    assert files.changed() == ["changed.txt", "out/raw", "out/report.md"]


def test_what_the_agent_could_not_see_is_not_there(files: FilesLeft) -> None:
    assert ".env" not in files


def test_a_file_that_the_agent_removed_is_not_there(tmp_path: Path, written: Path) -> None:
    source = tmp_path / "project"
    source.mkdir()
    (source / "gone.txt").write_text("x")
    try:
        import os

        os.mknod(written / "gone.txt", 0o020000, 0)
    except PermissionError:
        pytest.skip("only root makes whiteouts")
    assert "gone.txt" not in _left(tmp_path, written, source)


@pytest.mark.parametrize("path", ["/tmp/x", "/etc/passwd", "../other"])
def test_a_file_that_is_not_recorded_is_neither_there_nor_absent(
    files: FilesLeft, path: str
) -> None:
    with pytest.raises(InvalidInput, match="not among the files that are recorded"):
        _ = path in files


def test_nothing_is_read_through_a_link_of_the_agent(files: FilesLeft) -> None:
    with pytest.raises(InvalidInput, match="behind a link"):
        _ = "link/passwd" in files
    assert "link" in files
    with pytest.raises(InvalidInput, match="not a file"):
        _ = files["link"]


def test_what_is_no_text_or_no_file_is_said_so(files: FilesLeft) -> None:
    with pytest.raises(InvalidInput, match="is not text"):
        _ = files["out/raw"]
    with pytest.raises(InvalidInput, match="not a file"):
        _ = files["out"]
    with pytest.raises(KeyError):
        _ = files["nothing"]


def test_a_run_without_a_setting_has_no_files(tmp_path: Path) -> None:
    from paddock.run.scenarios.end_state import files_left
    from unit.run.recorded import Crossed, agent, record

    with pytest.raises(NotFound):
        files_left(record(tmp_path, "r", [Crossed(agent("python"))]))
