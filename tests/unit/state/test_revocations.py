"""What is revoked is lost to all that had it, and to nobody who gets it afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cases import for_each
from paddock.model.errors import HostCannot, InvalidInput
from paddock.state.home import Home
from paddock.state.revocations import enlist, holders, is_revoked, mark_of, revoke, strike


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def test_secret_is_not_revoked_before_somebody_does_it(home: Home) -> None:
    assert mark_of(home, "KEY") is None
    assert not is_revoked(home, "KEY", None)


def test_revoked_secret_is_lost_to_who_had_it_and_given_to_who_comes_later(home: Home) -> None:
    before = mark_of(home, "KEY")
    revoke(home, "KEY")
    after = mark_of(home, "KEY")
    assert is_revoked(home, "KEY", before)
    assert not is_revoked(home, "KEY", after)
    revoke(home, "KEY")
    assert is_revoked(home, "KEY", after)


def test_every_revocation_has_a_mark_of_its_own(home: Home) -> None:
    marks = set()
    for _ in range(50):
        revoke(home, "KEY")
        marks.add(mark_of(home, "KEY"))
    assert len(marks) == 50


def test_revocation_does_not_depend_on_the_clock(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = mark_of(home, "KEY")
    monkeypatch.setattr("time.time_ns", lambda: 0)
    revoke(home, "KEY")
    assert is_revoked(home, "KEY", before)


def test_one_secret_does_not_take_another_with_it(home: Home) -> None:
    revoke(home, "KEY")
    assert not is_revoked(home, "KEY_2", None)
    assert not is_revoked(home, "key", None)


def test_marker_that_is_removed_gives_nothing_back_to_who_saw_it(home: Home) -> None:
    revoke(home, "KEY")
    mark = mark_of(home, "KEY")
    (home.root / "secrets" / "revoked" / "KEY").unlink()
    assert is_revoked(home, "KEY", mark)


def test_what_cannot_be_looked_up_counts_as_revoked(home: Home) -> None:
    (home.root / "secrets").write_text("not a directory")
    assert is_revoked(home, "KEY", None)
    with pytest.raises(HostCannot, match="KEY"):
        mark_of(home, "KEY")
    with pytest.raises(HostCannot, match="KEY cannot be revoked"):
        revoke(home, "KEY")


@for_each("name", ["", "../KEY", "a/b", ".hidden", "A\0", "KEY\n", "1KEY", "a" * 200])
def test_name_that_is_not_one_makes_no_file(home: Home, name: str) -> None:
    with pytest.raises(InvalidInput):
        revoke(home, name)
    assert not (home.root / "secrets").exists()


def test_revocation_leaves_one_private_file_and_nothing_else(home: Home) -> None:
    revoke(home, "KEY")
    revoke(home, "KEY")
    place = home.root / "secrets" / "revoked"
    assert os.listdir(place) == ["KEY"]
    assert (place / "KEY").stat().st_mode & 0o077 == 0


def test_revocation_of_another_process_is_seen(home: Home) -> None:
    code = (
        "import sys; from pathlib import Path; from paddock.state.home import Home\n"
        "from paddock.state.revocations import revoke; revoke(Home(Path(sys.argv[1])), 'KEY')"
    )
    subprocess.run([sys.executable, "-c", code, str(home.root)], check=True, timeout=60)
    assert is_revoked(home, "KEY", None)


def test_holder_is_known_until_it_is_struck(home: Home) -> None:
    enlist(home, "box-1", {"KEY": None, "OTHER": mark_of(home, "OTHER")})
    (one,) = holders(home)
    assert (one.sandbox_id, list(one.marks), one.host_pid) == (
        "box-1",
        ["KEY", "OTHER"],
        os.getpid(),
    )
    assert one.lost(home) == set()
    revoke(home, "KEY")
    assert one.lost(home) == {"KEY"}
    strike(home, "box-1")
    assert holders(home) == []


def test_mark_survives_the_file_of_the_holder(home: Home) -> None:
    revoke(home, "KEY")
    enlist(home, "box-1", {"KEY": mark_of(home, "KEY")})
    assert holders(home)[0].lost(home) == set()


def test_holder_whose_process_is_gone_is_forgotten_and_its_file_removed(home: Home) -> None:
    code = (
        "import sys; from pathlib import Path; from paddock.state.home import Home\n"
        "from paddock.state.revocations import enlist\n"
        "enlist(Home(Path(sys.argv[1])), 'box-1', {'KEY': None})"
    )
    subprocess.run([sys.executable, "-c", code, str(home.root)], check=True, timeout=60)
    assert (home.root / "secrets" / "box-1.json").exists()
    assert holders(home) == []
    assert not (home.root / "secrets" / "box-1.json").exists()


def test_pid_that_is_used_again_is_not_taken_for_the_holder(home: Home) -> None:
    enlist(home, "box-1", {"KEY": None})
    path = home.root / "secrets" / "box-1.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "host_started": content["host_started"] - 1}))
    assert holders(home) == []


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"names": 1}', '{"names": {"../x": null}, "host_pid": 1}']
)
def test_damaged_record_is_no_holder_and_no_error(home: Home, content: str) -> None:
    enlist(home, "box-1", {"KEY": None})
    (home.root / "secrets" / "box-2.json").write_text(content)
    assert [one.sandbox_id for one in holders(home)] == ["box-1"]


def test_sandbox_id_that_is_not_one_makes_no_file(home: Home) -> None:
    with pytest.raises(InvalidInput):
        enlist(home, "../../x", {})
