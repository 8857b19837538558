"""Links swapped in a loop while the host reads, writes, lists, removes, forks and saves."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from paddock import Sandbox
from paddock.model.errors import PaddockError
from repetition import times
from security.attack import background, shell
from security.conftest import MakeBox

ROUNDS = times(80, 400)
# One name is by turns a file, a link to the host's secret and a FIFO; one directory by turns itself
# and a link to the directory of the secret.
SWAP = """
os.chdir(sys.argv[1])
directory, key = sys.argv[2:]
os.makedirs("real", exist_ok=True)
for name in ("file", "real/key"):
    with open(name, "w") as file:
        file.write("own")
os.path.lexists("place") or os.rename("real", "place")
print("up", flush=True)
end = time.time() + 60
while time.time() < end:
    try:
        os.symlink(key, "link")
        os.rename("link", "file")
        os.rename("place", "real")
        os.symlink(directory, "place")
        os.mkfifo("fifo")
        os.rename("fifo", "file")
        os.unlink("place")
        os.rename("real", "place")
        with open("new", "w") as file:
            file.write("own")
        os.rename("new", "file")
    except OSError:
        for name in ("link", "fifo", "new"):
            try:
                os.unlink(name)
            except OSError:
                pass
"""


def swapping(box: Sandbox, place: str, secret_file: Path) -> None:
    background(box, SWAP, place, str(secret_file.parent), str(secret_file))


@pytest.mark.repeated
@pytest.mark.parametrize("place", ["/home/user", "/w"])
def test_reading_never_gives_a_file_of_the_host(
    make_box: MakeBox, source: Path, secret_file: Path, secret: str, place: str
) -> None:
    box = make_box(mounts=[{"source": str(source), "target": "/w", "mode": "write"}])
    swapping(box, place, secret_file)
    seen = set()
    for _ in range(ROUNDS):
        for name in ("file", "place/key"):
            with contextlib.suppress(PaddockError):
                seen.add(box.files.read(f"{place}/{name}"))
    assert seen <= {"own", ""}


@pytest.mark.repeated
@pytest.mark.parametrize("place", ["/home/user", "/w"])
def test_writing_and_removing_never_touch_a_file_of_the_host(
    make_box: MakeBox, source: Path, secret_file: Path, secret: str, place: str
) -> None:
    box = make_box(mounts=[{"source": str(source), "target": "/w", "mode": "write"}])
    swapping(box, place, secret_file)
    for number in range(ROUNDS):
        for name in ("file", "place/key", f"place/new{number}"):
            with contextlib.suppress(PaddockError):
                box.files.write(f"{place}/{name}", "evil")
        with contextlib.suppress(PaddockError):
            box.files.remove(f"{place}/place/key")
        if number % 10 == 0:
            with contextlib.suppress(PaddockError):
                box.files.remove(f"{place}/place")
    assert [path.name for path in secret_file.parent.iterdir()] == ["key"]
    assert secret_file.read_text() == secret


@pytest.mark.repeated
def test_listing_never_shows_a_directory_of_the_host(box: Sandbox, secret_file: Path) -> None:
    (secret_file.parent / "only-on-the-host").write_text("x")
    swapping(box, "/home/user", secret_file)
    for _ in range(ROUNDS):
        with contextlib.suppress(PaddockError):
            names = {entry.name for entry in box.files.list(".", depth=3)}
            assert "only-on-the-host" not in names


def test_forks_and_snapshots_take_nothing_of_the_host(
    box: Sandbox, secret_file: Path, secret: str
) -> None:
    swapping(box, "/home/user", secret_file)
    search = f"grep -rl {secret} /home/user /tmp 2>/dev/null; true"
    for number in range(6):
        with contextlib.suppress(PaddockError), box.fork() as child:
            assert shell(child, search).stdout == ""
        if number % 3 == 0:
            with contextlib.suppress(PaddockError), Sandbox.create(snapshot=box.snapshot()) as copy:
                assert shell(copy, search).stdout == ""


def test_swapped_source_of_a_write_mount_shows_no_neighbour(
    make_box: MakeBox, source: Path, secret_file: Path, secret: str
) -> None:
    """Only a directory on the host is swapped here: the mount holds on to what it was made of."""
    box = make_box(mounts=[{"source": str(source), "target": "/w", "mode": "write"}])
    source.rename(source.with_name("moved"))
    source.symlink_to(secret_file.parent)
    assert secret not in shell(box, "cat /w/key; ls /w").stdout
    box.files.write("/w/new", "x")
    assert sorted(p.name for p in secret_file.parent.iterdir()) == ["key"]
