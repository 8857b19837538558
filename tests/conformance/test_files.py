"""Files through the API: read, written, listed, moved, removed."""

from __future__ import annotations

import io
import os
import time

import pytest

from cases import for_each
from paddock import FileError, FileMissing, InvalidInput, NotFound, Sandbox
from paddock.model.results import FileType

MIB = 1 << 20


def test_text_that_is_written_is_read_back(shared_box: Sandbox) -> None:
    entry = shared_box.files.write("notes.txt", "grüße\n")
    assert shared_box.files.read("notes.txt") == "grüße\n"
    assert (entry.name, entry.path, entry.size) == ("notes.txt", "/home/user/notes.txt", 8)
    assert shared_box.commands.run(["cat", "notes.txt"]).stdout == "grüße\n"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_bytes_can_be_written(shared_box: Sandbox, kind: type) -> None:
    data = os.urandom(3 * MIB + 17)
    shared_box.files.write("data.bin", kind(data))
    assert shared_box.files.read("data.bin", "bytes") == data


def test_open_files_can_be_written(shared_box: Sandbox) -> None:
    shared_box.files.write("from-bytes", io.BytesIO(b"\0\xff" * 300_000))
    shared_box.files.write("from-text", io.StringIO("ä" * 300_000))
    assert shared_box.files.read("from-bytes", "bytes") == b"\0\xff" * 300_000
    assert shared_box.files.read("from-text") == "ä" * 300_000


def test_stream_gives_the_content_in_pieces(shared_box: Sandbox) -> None:
    data = os.urandom(2 * MIB)
    shared_box.files.write("stream.bin", data)
    pieces = list(shared_box.files.read("stream.bin", format="stream"))
    assert len(pieces) > 1
    assert b"".join(pieces) == data


@for_each(("path", "code"), [("missing", "ENOENT"), ("/usr", "EISDIR"), ("closed", "EACCES")])
def test_stream_of_what_cannot_be_read_fails_at_the_call(
    shared_box: Sandbox, path: str, code: str
) -> None:
    shared_box.commands.run("touch closed; chmod 0 closed")
    with pytest.raises(FileError) as caught:
        shared_box.files.read(path, format="stream")
    assert (caught.value.code, isinstance(caught.value, FileMissing)) == (code, code == "ENOENT")


def test_stream_may_be_left_in_the_middle(shared_box: Sandbox) -> None:
    shared_box.files.write("long.bin", bytes(8 * MIB))
    for _ in range(20):
        stream = shared_box.files.read("long.bin", format="stream")
        assert next(stream)
        stream.close()
        assert list(stream) == []
        shared_box.files.read("long.bin", format="stream")  # nobody takes it: let go of as well
    assert shared_box.commands.run("echo fine").stdout == "fine\n"


def test_write_puts_nothing_of_a_longer_old_content_behind(shared_box: Sandbox) -> None:
    shared_box.files.write("short", "long content")
    shared_box.files.write("short", "new")
    assert shared_box.files.read("short") == "new"


def test_empty_file(shared_box: Sandbox) -> None:
    assert shared_box.files.write("empty", "").size == 0
    assert shared_box.files.read("empty") == ""
    assert shared_box.files.read("empty", "bytes") == b""
    assert list(shared_box.files.read("empty", "stream")) == []


def test_missing_parents_are_made(shared_box: Sandbox) -> None:
    shared_box.files.write("a/b/c/d.txt", "deep")
    assert shared_box.files.read("/home/user/a/b/c/d.txt") == "deep"


def test_append_of_a_big_piece_goes_to_the_end(shared_box: Sandbox) -> None:
    piece = os.urandom(9 * MIB)
    shared_box.files.write("log", b"begin")
    shared_box.files.write("log", piece, is_append=True)
    shared_box.files.write("log", b"end", is_append=True)
    assert shared_box.files.read("log", "bytes") == b"begin" + piece + b"end"


def test_several_files_at_once(shared_box: Sandbox) -> None:
    entries = shared_box.files.write_files(
        [{"path": "many/one", "data": "1"}, {"path": "many/two", "data": b"22"}]
    )
    assert [(e.name, e.size) for e in entries] == [("one", 1), ("two", 2)]
    assert shared_box.files.read("many/two") == "22"


def test_list_gives_entries_with_type_size_and_mode(shared_box: Sandbox) -> None:
    shared_box.commands.run(
        "mkdir -p zoo/sub; echo hi > zoo/file; chmod 640 zoo/file; ln -s file zoo/link;"
        " mkfifo zoo/pipe"
    )
    entries = {e.name: e for e in shared_box.files.list("zoo")}
    assert {name: e.type for name, e in entries.items()} == {
        "file": FileType.FILE,
        "link": FileType.SYMLINK,
        "pipe": FileType.OTHER,
        "sub": FileType.DIR,
    }
    assert (entries["file"].size, entries["file"].mode) == (3, 0o640)
    assert entries["file"].permissions == "rw-r-----"
    assert entries["link"].symlink_target == "file"
    assert entries["sub"].path == "/home/user/zoo/sub"
    assert abs(entries["file"].modified_at - time.time()) < 600


def test_list_goes_as_deep_as_asked(shared_box: Sandbox) -> None:
    shared_box.commands.run("mkdir -p deep/1/2/3; touch deep/1/2/3/leaf")
    assert [e.name for e in shared_box.files.list("deep")] == ["1"]
    assert [e.name for e in shared_box.files.list("deep", depth=2)] == ["1", "2"]
    assert [e.name for e in shared_box.files.list("deep", depth=9)] == ["1", "2", "3", "leaf"]


def test_list_does_not_follow_links_to_directories(shared_box: Sandbox) -> None:
    shared_box.commands.run("mkdir loop; ln -s . loop/self; ln -s /usr loop/usr")
    assert [e.name for e in shared_box.files.list("loop", depth=5)] == ["self", "usr"]


def test_list_of_five_thousand_files_is_complete(shared_box: Sandbox) -> None:
    shared_box.commands.run("mkdir crowd; cd crowd; seq -f 'file-%06g' 5000 | xargs touch")
    entries = shared_box.files.list("crowd")
    assert [e.name for e in entries] == [f"file-{n:06}" for n in range(1, 5001)]


def test_exists_is_true_for_files_directories_and_dangling_links(shared_box: Sandbox) -> None:
    shared_box.commands.run("touch there; ln -s nowhere dangling")
    assert shared_box.files.exists("there")
    assert shared_box.files.exists("/usr")
    assert shared_box.files.exists("dangling")
    assert not shared_box.files.exists("not-there")


def test_get_info_tells_of_one_path(shared_box: Sandbox) -> None:
    shared_box.files.write("one", "12345")
    info = shared_box.files.get_info("one")
    assert (info.type, info.size, info.path) == (FileType.FILE, 5, "/home/user/one")
    assert shared_box.files.get_info("/").type is FileType.DIR


def test_make_dir_says_whether_it_was_new(shared_box: Sandbox) -> None:
    assert shared_box.files.make_dir("fresh/inner") is True
    assert shared_box.files.make_dir("fresh/inner") is False
    assert shared_box.files.get_info("fresh/inner").type is FileType.DIR


def test_rename_moves_and_replaces(shared_box: Sandbox) -> None:
    shared_box.files.write("old", "content")
    shared_box.files.write("new", "gone")
    assert shared_box.files.rename("old", "new").path == "/home/user/new"
    assert shared_box.files.read("new") == "content"
    assert not shared_box.files.exists("old")


def test_remove_takes_a_whole_tree_and_never_what_a_link_points_to(shared_box: Sandbox) -> None:
    shared_box.commands.run(
        "mkdir -p tree/a/b kept; touch tree/a/b/f kept/me; ln -s ../kept tree/link;"
        " chmod 0 tree/a/b/f"
    )
    shared_box.files.remove("tree")
    assert not shared_box.files.exists("tree")
    assert shared_box.files.exists("kept/me")


def test_remove_of_a_link_leaves_its_target(shared_box: Sandbox) -> None:
    shared_box.commands.run("mkdir target; touch target/f; ln -s target alias")
    shared_box.files.remove("alias")
    assert shared_box.files.exists("target/f")
    assert not shared_box.files.exists("alias")


def test_remove_takes_a_very_deep_tree(shared_box: Sandbox) -> None:
    program = (
        "import os\n"
        "os.mkdir('abyss'); os.chdir('abyss')\n"
        "for _ in range(1500):\n"
        "    os.mkdir('d'); os.chdir('d')\n"
    )
    shared_box.commands.run(["python3", "-c", program])
    shared_box.files.remove("abyss")
    assert not shared_box.files.exists("abyss")


@pytest.mark.parametrize("call", ["read", "get_info", "list", "remove", "watch_dir"])
def test_missing_path_is_an_error_that_names_it(shared_box: Sandbox, call: str) -> None:
    with pytest.raises(FileMissing, match="/home/user/absent") as caught:
        getattr(shared_box.files, call)("absent")
    assert isinstance(caught.value, NotFound) and isinstance(caught.value, OSError)
    assert (caught.value.code, caught.value.path) == ("ENOENT", "/home/user/absent")


def test_rename_of_what_is_missing_is_an_error(shared_box: Sandbox) -> None:
    with pytest.raises(FileMissing):
        shared_box.files.rename("absent", "anything")


@pytest.mark.parametrize("depth", [0, -1, "2", 1.5])
def test_depth_must_be_a_whole_number_from_one(shared_box: Sandbox, depth: object) -> None:
    with pytest.raises(InvalidInput, match="depth"):
        shared_box.files.list(".", depth=depth)


def test_unknown_format_is_invalid(shared_box: Sandbox) -> None:
    with pytest.raises(InvalidInput, match="format"):
        shared_box.files.read("x", format="json")  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [None, 7, ["a"], {"a": 1}])
def test_data_of_another_type_is_invalid(shared_box: Sandbox, data: object) -> None:
    with pytest.raises(InvalidInput, match="data"):
        shared_box.files.write("x", data)


def test_system_files_cannot_be_written(shared_box: Sandbox) -> None:
    for path in ("/usr/bin/new", "/etc/passwd", "/proc/version", "/new-at-the-root"):
        with pytest.raises(FileError) as caught:
            shared_box.files.write(path, "x")
        assert caught.value.code in ("EROFS", "EACCES", "EPERM", "EINVAL")
