"""Patches are taken by the real git, and give the same bytes and modes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.state.changes.patch_format import MAX_TEXT_BYTES, Version, file_patch

FILE, PROGRAM = 0o100644, 0o100755
# Many lines, and letters that end a line to Python or are no UTF-8.
TEXT = st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"c\r\n", b"\x0c\x85\xff\n", b"--- a/x\n",
                                 b"@@ -1 +1 @@\n", b"end"]), max_size=30).map(b"".join)  # fmt: skip


def applied(place: Path, old: Version | None, new: Version | None, name: bytes = b"f") -> None:
    """Apply the patch with git where the old version is, and compare with the new one."""
    path = Path(place, name.decode("utf-8", "surrogateescape"))
    path.unlink(missing_ok=True)
    if old is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(old.data)
        path.chmod(old.mode & 0o777)
    patch = b"".join(file_patch(name, old, new))
    if patch:
        command = ["git", "apply", "--whitespace=nowarn", "-"]
        done = subprocess.run(command, input=patch, cwd=place, capture_output=True, check=False)
        assert done.returncode == 0, (done.stderr, patch)
    if new is None:
        assert not path.exists()
    else:
        assert path.read_bytes() == new.data
        assert (path.stat().st_mode & 0o100) == (new.mode & 0o100)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=TEXT, new=TEXT)
def test_git_makes_the_new_text_of_the_old_one(tmp_path: Path, old: bytes, new: bytes) -> None:
    applied(tmp_path, Version(FILE, old), Version(FILE, new))


@pytest.mark.parametrize("old", [None, Version(FILE, b""), Version(PROGRAM, b"\0bin" * 100),
                                 Version(FILE, b"text")])  # fmt: skip
@pytest.mark.parametrize("new", [None, Version(FILE, b""), Version(PROGRAM, bytes(range(256)) * 9),
                                 Version(PROGRAM, b"text")])  # fmt: skip
def test_new_gone_empty_binary_and_other_modes_are_taken(
    tmp_path: Path, old: Version | None, new: Version | None
) -> None:
    applied(tmp_path, old, new)


@pytest.mark.parametrize(
    "name",
    [b"with space", b" ", b"quote\"s'", b"back\\slash", b"tab\tline\n", "ünï/ćode".encode(),
     b"\xff", b"a b/c d", b"-x", b"b/a/x"],
)  # fmt: skip
def test_names_of_every_kind_are_taken(tmp_path: Path, name: bytes) -> None:
    applied(tmp_path, None, Version(FILE, b"new\n"), name)
    applied(tmp_path, Version(FILE, b"new\n"), Version(PROGRAM, b"other"), name)
    applied(tmp_path, Version(FILE, b"new"), Version(FILE, b"\0other"), name)
    applied(tmp_path, Version(FILE, b"gone\n"), None, name)


def test_long_texts_that_differ_everywhere_are_replaced_as_a_whole(tmp_path: Path) -> None:
    old = b"".join(b"%d\n" % number for number in range(20_000))
    new = b"first\n" + b"".join(b"%d\n" % number for number in reversed(range(20_000))) + b"19999\n"
    applied(tmp_path, Version(FILE, old), Version(FILE, new))
    applied(tmp_path, Version(FILE, old), Version(FILE, old + b"x" * MAX_TEXT_BYTES))
