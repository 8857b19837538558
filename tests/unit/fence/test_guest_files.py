"""Files, watches and locks by the real guest: what the kernel says comes back, nothing blocks."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from paddock.fence.channel import GuestStream, StreamData, StreamEnd, StreamEvent
from paddock.fence.guest import wire
from unit.fence.guest_process import Guest
from unit.fence.scripted_peer import in_loop

needs_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")


async def read(guest: Guest, path: Path) -> tuple[bytes, dict[str, Any]]:
    content = b""
    with guest.channel.open("read", path=str(path)) as stream:
        while True:
            item = await stream.next()
            if isinstance(item, StreamData):
                content += item.content
            elif isinstance(item, StreamEnd):
                return content, item.value


async def write(guest: Guest, path: Path, content: bytes, **more: Any) -> dict[str, Any]:
    with guest.channel.open("write", path=str(path), **more) as stream:
        first = await stream.next()
        if isinstance(first, StreamEnd):
            return first.value
        await stream.send(content)
        stream.send_eof()
        return await stream.end()


async def listed(guest: Guest, path: Path, depth: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with guest.channel.open("list", path=str(path), depth=depth) as stream:
        while True:
            item = await stream.next()
            if isinstance(item, StreamEvent):
                found += item.value["entries"]
            elif isinstance(item, StreamEnd):
                assert item.value == {}
                return found


def code_of(answer: dict[str, Any]) -> int:
    number: int = answer["error"]["errno"]
    return number


# ---- content -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, wire.CHUNK, wire.CHUNK + 1, 2 * wire.WINDOW + 7])
@in_loop
async def test_file_that_was_written_reads_back_the_same(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    async with Guest() as guest:
        answer = await write(guest, tmp_path / "f", content)
        assert answer["size"] == size
        assert answer["entry"]["size"] == size
        assert (tmp_path / "f").read_bytes() == content
        assert await read(guest, tmp_path / "f") == (content, {})


@in_loop
async def test_reader_waits_for_credit_and_not_the_guest(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(3 * wire.WINDOW))
    async with Guest() as guest:
        with guest.channel.open("read", path=str(tmp_path / "big")) as stream:
            assert isinstance(await stream.next(), StreamEvent)
            await asyncio.sleep(0.05)
            assert await guest.ask("ping") == {}  # it serves others meanwhile
            assert (
                sum(len(i.content) for i in stream._items if isinstance(i, StreamData))
                <= wire.WINDOW
            )


@in_loop
async def test_write_replaces_append_adds_and_parents_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "f"
    async with Guest() as guest:
        await write(guest, path, b"long content")
        await write(guest, path, b"new")
        assert path.read_bytes() == b"new"
        await write(guest, path, b"+", append=True)
        assert path.read_bytes() == b"new+"
        assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600


@in_loop
async def test_write_that_is_given_up_closes_its_file(tmp_path: Path) -> None:
    async with Guest() as guest:
        await guest.ask("ping")
        before = len(os.listdir(f"/proc/{guest.process.pid}/fd"))
        for _ in range(5):
            with guest.channel.open("write", path=str(tmp_path / "f")) as stream:
                await stream.next()
        await guest.ask("ping")
        assert len(os.listdir(f"/proc/{guest.process.pid}/fd")) == before


@pytest.mark.parametrize("op", ["read", "write"])
@in_loop
async def test_only_regular_files_are_opened_and_none_of_the_others_blocks(
    tmp_path: Path, op: str
) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dir").mkdir()
    async with Guest() as guest:
        for path, codes in (
            (tmp_path / "fifo", (errno.EINVAL, errno.ENXIO)),
            (tmp_path / "dir", (errno.EISDIR,)),
            (Path("/dev/null"), (errno.EINVAL,)),
        ):
            answer = await asyncio.wait_for(guest.ask(op, path=str(path)), timeout=2)
            assert code_of(answer) in codes
            assert answer["error"]["path"] == str(path)


@in_loop
async def test_refused_write_does_not_empty_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("kept")
    async with Guest() as guest:
        assert code_of(await guest.ask("write", path=str(tmp_path / "f" / "below"))) == 20
    assert (tmp_path / "f").read_text() == "kept"


@needs_user
@in_loop
async def test_what_the_agent_may_not_the_guest_may_not(tmp_path: Path) -> None:
    (tmp_path / "closed").write_text("x")
    (tmp_path / "closed").chmod(0)
    async with Guest() as guest:
        for op in ("read", "write"):
            assert code_of(await guest.ask(op, path=str(tmp_path / "closed"))) == errno.EACCES


@in_loop
async def test_missing_file_is_told_by_its_number(tmp_path: Path) -> None:
    async with Guest() as guest:
        for op in ("read", "stat", "list", "remove", "watch"):
            assert code_of(await guest.ask(op, path=str(tmp_path / "no"))) == errno.ENOENT


# ---- names ---------------------------------------------------------------------------------------


@in_loop
async def test_names_of_any_bytes_are_listed_and_can_be_used(tmp_path: Path) -> None:
    names = [b"plain", b"with space", b"new\nline", "ümläut".encode(), b"\xff\xfe", b"x" * 255]
    for name in names:
        os.close(os.open(os.fsencode(tmp_path) + b"/" + name, os.O_CREAT | os.O_WRONLY))
    async with Guest() as guest:
        found = await listed(guest, tmp_path)
        assert {os.fsencode(os.path.basename(e["path"])) for e in found} == set(names)
        for entry in found:
            assert (await guest.ask("stat", path=entry["path"]))["entry"] == entry


@in_loop
async def test_list_goes_as_deep_as_asked_and_never_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    async with Guest() as guest:
        for depth, names in ((1, "d link"), (2, "d e link"), (3, "d e f link")):
            found = await listed(guest, tmp_path, depth)
            assert sorted(os.path.basename(e["path"]) for e in found) == names.split()
        link = next(e for e in found if e["path"].endswith("link"))
        assert (link["type"], link["target"]) == ("symlink", str(tmp_path))


@in_loop
async def test_list_of_many_files_comes_in_parts(tmp_path: Path) -> None:
    for n in range(1200):
        (tmp_path / f"f{n}").touch()
    async with Guest() as guest:
        assert len(await listed(guest, tmp_path)) == 1200


@in_loop
async def test_directory_is_made_once_and_a_file_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with Guest() as guest:
        assert await guest.ask("make_dir", path=str(tmp_path / "a/b")) == {"created": True}
        assert await guest.ask("make_dir", path=str(tmp_path / "a/b")) == {"created": False}
        for path in ("file", "file/below"):
            answer = await guest.ask("make_dir", path=str(tmp_path / path))
            assert code_of(answer) == errno.ENOTDIR


@in_loop
async def test_rename_tells_of_the_entry_in_its_new_place(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("target")
    async with Guest() as guest:
        to = str(tmp_path / "b")
        entry = (await guest.ask("rename", path=str(tmp_path / "a"), to=to))["entry"]
        assert entry == (await guest.ask("stat", path=to))["entry"]


@in_loop
async def test_tree_is_removed_and_what_its_links_point_to_is_not(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x")
    (tmp_path / "tree/a/b").mkdir(parents=True)
    (tmp_path / "tree/a/link").symlink_to(tmp_path)
    (tmp_path / "tree/a/b/f").touch()
    async with Guest() as guest:
        assert await guest.ask("remove", path=str(tmp_path / "tree")) == {}
        assert os.listdir(tmp_path) == ["kept"]
        (tmp_path / "link").symlink_to(tmp_path / "kept")
        assert await guest.ask("remove", path=str(tmp_path / "link")) == {}
    assert os.listdir(tmp_path) == ["kept"]


# ---- watches -------------------------------------------------------------------------------------


async def changes(stream: GuestStream, count: int) -> list[list[str]]:
    found: list[list[str]] = []
    while len(found) < count:
        found += (await asyncio.wait_for(stream.event(), timeout=5))["changes"]
    return found


@in_loop
async def test_watch_tells_what_happens_to_each_name(tmp_path: Path) -> None:
    async with Guest() as guest:
        with guest.channel.open("watch", path=str(tmp_path)) as stream:
            assert await stream.event() == {"watching": True}
            (tmp_path / "f").write_text("x")
            (tmp_path / "f").chmod(0o600)
            (tmp_path / "f").rename(tmp_path / "g")
            (tmp_path / "g").unlink()
            found = await changes(stream, 6)
        kinds = ["create f", "write f", "chmod f", "rename f", "create g", "remove g"]
        assert [" ".join(pair) for pair in found] == kinds


@in_loop
async def test_recursive_watch_follows_directories_that_are_made_later(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    async with Guest() as guest:
        with guest.channel.open("watch", path=str(tmp_path), recursive=True) as stream:
            await stream.event()
            (tmp_path / "old" / "f").touch()
            (tmp_path / "new").mkdir()
            assert await changes(stream, 2) == [["create", "old/f"], ["create", "new"]]
            (tmp_path / "new" / "g").touch()
            assert ["create", "new/g"] in await changes(stream, 1)


@in_loop
async def test_watch_that_is_left_gives_its_descriptor_back(tmp_path: Path) -> None:
    async with Guest() as guest:
        await guest.ask("ping")
        before = len(os.listdir(f"/proc/{guest.process.pid}/fd"))
        for _ in range(3):
            with guest.channel.open("watch", path=str(tmp_path)) as stream:
                await stream.event()
        await guest.ask("ping")
        assert len(os.listdir(f"/proc/{guest.process.pid}/fd")) == before


@in_loop
async def test_file_cannot_be_watched_as_a_directory(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    async with Guest() as guest:
        assert code_of(await guest.ask("watch", path=str(tmp_path / "f"))) == errno.ENOTDIR


# ---- locks ---------------------------------------------------------------------------------------


def is_locked(path: Path) -> bool:
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@in_loop
async def test_lock_holds_for_as_long_as_its_stream(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    async with Guest() as guest:
        with guest.channel.open("lock", path=str(path)) as stream:
            assert await stream.event() == {"locked": True}
            assert is_locked(path)
            busy = await guest.ask("lock", path=str(path), timeout=0.05)
            assert code_of(busy) == errno.EAGAIN
        await guest.ask("ping")
        assert not is_locked(path)


@in_loop
async def test_lock_that_is_waited_for_comes_when_it_is_free(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    async with Guest() as guest:
        first = guest.channel.open("lock", path=path)
        await first.event()
        with guest.channel.open("lock", path=path) as second:
            waiting = asyncio.ensure_future(second.event())
            await asyncio.sleep(0.05)
            assert not waiting.done()
            first.close()
            assert await waiting == {"locked": True}


@in_loop
async def test_shared_locks_share_and_keep_the_exclusive_one_out(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    async with Guest() as guest:
        with (
            guest.channel.open("lock", path=path, shared=True) as one,
            guest.channel.open("lock", path=path, shared=True) as two,
        ):
            assert await one.event() == await two.event() == {"locked": True}
            assert code_of(await guest.ask("lock", path=path, timeout=0)) == errno.EAGAIN


@in_loop
async def test_wait_for_a_lock_that_is_given_up_never_takes_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    async with Guest() as guest:
        first = guest.channel.open("lock", path=str(path))
        await first.event()
        guest.channel.open("lock", path=str(path)).close()
        first.close()
        await asyncio.sleep(0.1)
        assert not is_locked(path)
