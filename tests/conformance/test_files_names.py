"""Names and kinds of files that are out of the ordinary, through the API."""

from __future__ import annotations

import pytest

from cases import for_each
from conformance.waiting import result_of
from paddock import FileError, InvalidInput, Sandbox

NAMES = [
    "with space",
    "new\nline",
    "tab\tand 'quotes\"",
    "ünï-çødé-日本語-🐎",
    "caf\udce9-not-utf8",
    "-rf",
    "*",
    "~",
    "back\\slash",
    "x" * 255,
]


@for_each("name", NAMES, ids=range(len(NAMES)))
def test_any_name_works_in_every_call(shared_box: Sandbox, name: str) -> None:
    files = shared_box.files
    assert files.write(f"odd/{name}", "content").name == name
    assert files.read(f"odd/{name}") == "content"
    assert files.exists(f"odd/{name}")
    assert files.get_info(f"odd/{name}").path == f"/home/user/odd/{name}"
    assert [e.name for e in files.list("odd")] == [name]
    files.rename(f"odd/{name}", "odd/plain")
    files.rename("odd/plain", f"odd/{name}")
    files.remove(f"odd/{name}")
    assert files.list("odd") == []


def test_name_that_is_too_long_is_an_error(shared_box: Sandbox) -> None:
    with pytest.raises(FileError) as caught:
        shared_box.files.write("y" * 256, "x")
    assert caught.value.code == "ENAMETOOLONG"


@pytest.mark.parametrize("path", ["", "a\0b", 7, None, b"bytes", "p" * 5000])
def test_path_that_is_none_is_invalid_input(shared_box: Sandbox, path: object) -> None:
    for call in (shared_box.files.read, shared_box.files.list, shared_box.files.exists):
        with pytest.raises(InvalidInput, match="path"):
            call(path)
    with pytest.raises(InvalidInput, match="path"):
        shared_box.files.write(path, "x")


def test_path_may_have_dots_and_double_slashes(shared_box: Sandbox) -> None:
    shared_box.files.write("dir/inner/f", "x")
    assert shared_box.files.read("./dir//inner/../inner/./f") == "x"


def test_dots_go_where_the_kernel_goes_after_a_link(shared_box: Sandbox) -> None:
    shared_box.commands.run("mkdir -p real/sub; echo seen > real/f; ln -s real/sub jump")
    assert shared_box.files.read("jump/../f") == "seen\n"


def test_pathlib_paths_are_taken(shared_box: Sandbox) -> None:
    from pathlib import PurePosixPath

    shared_box.files.write(PurePosixPath("lib/path"), "x")
    assert shared_box.files.read(PurePosixPath("/home/user/lib/path")) == "x"


@pytest.mark.parametrize(
    ("make", "path", "code"),
    [
        ("mkfifo fifo", "fifo", "EINVAL"),
        ("ln -sf fifo2 to-fifo; mkfifo fifo2", "to-fifo", "EINVAL"),
        ("true", "/dev/zero", "EINVAL"),
        ("true", "/dev/tty", "ENXIO"),
        ("mkdir directory", "directory", "EISDIR"),
        ("true", "/", "EISDIR"),
    ],
)
def test_read_of_what_is_no_file_is_refused_and_never_hangs(
    shared_box: Sandbox, make: str, path: str, code: str
) -> None:
    shared_box.commands.run(make)
    for how in ("text", "bytes"):
        with pytest.raises(FileError) as caught:
            result_of(lambda how=how: shared_box.files.read(path, how))
        assert caught.value.code == code
    with pytest.raises(FileError):
        result_of(lambda: list(shared_box.files.read(path, "stream")))


@pytest.mark.parametrize("make", ["mkfifo w", "mkdir w", "ln -s /dev/full w", "ln -s w w"])
def test_write_to_what_is_no_file_is_refused_and_never_hangs(
    shared_box: Sandbox, make: str
) -> None:
    shared_box.commands.run(f"rm -rf w; {make}")
    with pytest.raises(FileError):
        result_of(lambda: shared_box.files.write("w", "data"))


def test_write_through_a_file_as_a_directory_is_refused(shared_box: Sandbox) -> None:
    shared_box.files.write("leaf", "x")
    with pytest.raises(FileError) as caught:
        shared_box.files.write("leaf/below", "x")
    assert caught.value.code == "ENOTDIR"
    with pytest.raises(FileError) as caught:
        shared_box.files.make_dir("leaf")
    assert caught.value.code in ("EEXIST", "ENOTDIR")


def test_socket_file_is_refused(shared_box: Sandbox) -> None:
    program = "import socket; socket.socket(socket.AF_UNIX).bind('sock')"
    shared_box.commands.run(["python3", "-c", program])
    with pytest.raises(FileError):
        shared_box.files.read("sock")


def test_file_that_the_agent_may_not_read_is_refused(shared_box: Sandbox) -> None:
    shared_box.commands.run("echo x > closed; chmod 0 closed")
    with pytest.raises(FileError) as caught:
        shared_box.files.read("closed")
    assert caught.value.code == "EACCES"


def test_file_that_is_cut_while_it_is_read_ends(shared_box: Sandbox) -> None:
    shared_box.commands.run("truncate -s 200M cut")
    stream = shared_box.files.read("cut", "stream")
    size = len(next(stream))
    shared_box.commands.run("truncate -s 0 cut")
    size += sum(len(chunk) for chunk in result_of(lambda: list(stream)))
    assert size < 200_000_000


def test_proc_files_without_a_size_are_read_whole(shared_box: Sandbox) -> None:
    assert shared_box.files.read("/proc/self/status").startswith("Name:")
