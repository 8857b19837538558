"""What is brought into every sandbox: it is complete, it starts, and nothing private is in it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases import for_each
from paddock.fence import bubblewrap
from paddock.fence.container import inside
from paddock.fence.guest import agreed
from paddock.state.home import Home, remove_tree


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """One for all workers of a test run: what takes seconds to build is built once."""
    base = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    shared = Home((base.parent if is_worker else base) / "inside-home")
    shared.make()
    return shared


def entries(top: Path) -> Iterator[tuple[str, os.stat_result]]:
    for directory, names, files in os.walk(top):
        for name in [*names, *files]:
            path = os.path.join(directory, name)
            yield os.path.relpath(path, top), os.lstat(path)


# ---- /etc ----------------------------------------------------------------------------------------


def test_etc_holds_no_file_that_the_host_does_not_show_to_everybody(home: Home) -> None:
    etc = inside.synthetic_etc(home)
    for name, info in entries(etc):
        if not stat.S_ISREG(info.st_mode) or name in inside._ETC_FILES:
            continue
        if name == os.path.relpath(agreed.HOST_CERTIFICATES, "/etc"):
            name = "ssl/certs/ca-certificates.crt"
        walked = Path("/etc")
        for part in Path(name).parts[:-1]:
            walked = walked / part
            assert walked.stat().st_mode & 0o001, f"{name}: {walked} is closed to others"
        assert (Path("/etc") / name).stat().st_mode & 0o004, f"{name} is private to the host"


@for_each(
    "name",
    ["shadow", "gshadow", "sudoers", "ssh", "ssl/private", "machine-id", "fstab", "crontab",
     "hostid", "krb5.keytab", "NetworkManager", "wireguard", "environment"],
)  # fmt: skip
def test_etc_has_nothing_of_the_hosts_own_business(home: Home, name: str) -> None:
    assert not os.path.lexists(inside.synthetic_etc(home) / name)


def test_accounts_are_the_sandboxs_own_and_not_the_hosts(home: Home) -> None:
    etc = inside.synthetic_etc(home)
    names = [line.split(":")[0] for line in (etc / "passwd").read_text().splitlines()]
    assert names == ["root", "user", "nobody"]
    assert "user:x:1000:1000" in (etc / "passwd").read_text()


def test_names_of_the_machine_are_those_that_the_guest_writes(home: Home) -> None:
    etc = inside.synthetic_etc(home)
    assert os.readlink(etc / "hosts") == "/run/hosts"
    assert os.readlink(etc / "hostname") == "/run/hostname"
    assert os.readlink(etc / "resolv.conf") == agreed.RESOLVER


def test_whom_to_trust_is_a_file_of_the_sandbox_and_what_the_host_trusts_is_beside_it(
    home: Home,
) -> None:
    etc = inside.synthetic_etc(home)
    assert os.readlink(etc / "ssl/certs/ca-certificates.crt") == agreed.CERTIFICATES
    hosts = Path("/etc/ssl/certs/ca-certificates.crt")
    kept = etc / os.path.relpath(agreed.HOST_CERTIFICATES, "/etc")
    assert kept.is_file() == hosts.is_file()
    assert not hosts.is_file() or kept.read_bytes() == hosts.read_bytes()


def test_everything_brought_can_be_read_by_every_uid_and_written_by_none(home: Home) -> None:
    for top in (inside.synthetic_etc(home), inside.kernel_code(home, inside.interpreter_path())):
        assert stat.S_IMODE(top.stat().st_mode) == 0o755
        for name, info in entries(top):
            if not stat.S_ISLNK(info.st_mode):
                assert info.st_mode & 0o004, name
                assert not info.st_mode & 0o6022, name


def test_private_file_is_left_out_of_a_copy(tmp_path: Path) -> None:
    source = tmp_path / "etc"
    (source / "open").mkdir(parents=True)
    (source / "open" / "public").write_text("p")
    (source / "open" / "key").write_text("secret")
    (source / "open" / "key").chmod(0o640)
    os.mkfifo(source / "open" / "fifo")
    inside._copy_public(source, tmp_path / "copy")
    assert sorted(os.listdir(tmp_path / "copy" / "open")) == ["public"]


def test_file_in_a_closed_directory_is_left_out_of_a_copy(tmp_path: Path) -> None:
    # Its own mode says public; nobody could get to it, though.
    closed = tmp_path / "etc" / "closed"
    closed.mkdir(parents=True)
    (closed / "key").write_text("secret")
    (closed / "key").chmod(0o644)
    closed.chmod(0o700)
    inside._copy_public(tmp_path / "etc", tmp_path / "copy")
    assert not (tmp_path / "copy" / "closed" / "key").exists()


def test_link_is_copied_as_a_link_and_not_as_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "link").symlink_to(tmp_path / "secret")
    inside._copy_public(tmp_path / "etc", tmp_path / "copy")
    assert (tmp_path / "copy" / "link").is_symlink()


# ---- the code interpreter's program --------------------------------------------------------------


def test_kernel_code_is_complete_and_compiled(home: Home) -> None:
    top = inside.kernel_code(home, inside.interpreter_path())
    assert sorted(os.listdir(top)) == ["kernel", "python", "site"]
    assert os.listdir(top / "python") == os.listdir(top / "site") == []  # mount points
    sources = {p.stem for p in (top / "kernel").glob("*.py")}
    compiled = {p.name.split(".")[0] for p in (top / "kernel" / "__pycache__").glob("*.pyc")}
    assert sources == compiled
    assert "kernel" in sources


def test_kernel_modules_find_each_other_and_need_nothing_else_of_paddock(home: Home) -> None:
    top = inside.kernel_code(home, inside.interpreter_path())
    names = sorted(p.stem for p in (top / "kernel").glob("*.py"))
    program = "import sys; sys.path.insert(0, sys.argv[1])\n" + "".join(
        f"import {name}; print({name}.__file__)\n" for name in names
    )
    words = [inside.interpreter_path(), "-I", "-B", "-c", program, str(top / "kernel")]
    done = subprocess.run(words, capture_output=True, text=True, env={})
    assert done.stdout.split() == [str(top / "kernel" / f"{name}.py") for name in names]
    assert done.stderr == ""


def test_code_of_the_guest_stays_outside(home: Home) -> None:
    """It is loaded before the sandbox is: nothing inside could be put in its place."""
    top = inside.kernel_code(home, inside.interpreter_path())
    names = {os.path.basename(name) for name, _ in entries(top)}
    assert not names & {"main.py", "enter.py", "nursery.py", "wire.py", "bundle"}


# ---- the interpreter -----------------------------------------------------------------------------


def test_interpreter_of_the_host_is_used_only_when_it_is_new_enough() -> None:
    found = inside.system_interpreter()
    assert inside.interpreter_path() == (found or os.path.realpath(sys.executable))
    if found is not None:
        assert (inside._version(found) or (0, 0)) >= inside._OLDEST_PYTHON


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/usr/bin/python3.12", (3, 12)),
        ("/usr/bin/python3", None),
        ("/usr/bin/python3.12-dbg", None),
        ("/opt/pypy3.10", None),
    ],
)
def test_version_is_taken_from_a_name_only_where_it_is_the_whole_name(
    path: str, version: tuple[int, int] | None
) -> None:
    assert inside._named_version(path) == version


def test_brought_interpreter_starts_in_a_root_that_has_nothing_else(home: Home) -> None:
    brought = inside.brought_interpreter(home)
    program = (
        "import sys, json, os, select, fcntl, _socket, resource, _ctypes, _struct, subprocess;"
        "print(json.dumps([sys.version_info[:2], sys.prefix, sorted(os.listdir('/'))]))"
    )
    place = "/.paddock/python"
    loader = next(p.name for p in (brought / "lib").glob("ld-*"))
    python = [f"{place}/lib/{loader}", "--library-path", f"{place}/lib", f"{place}/bin/python3"]
    box = [bubblewrap.find(), "--unshare-user", "--unshare-pid", "--unshare-net", "--clearenv",
           "--ro-bind", str(brought), place, "--dev", "/dev", "--"]  # fmt: skip
    words = [*box, *python, "-I", "-S", "-B", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    version, prefix, names = json.loads(done.stdout)
    assert tuple(version) >= (3, 9)
    assert prefix == place
    assert names == [".paddock", "dev"]


def test_brought_interpreter_has_no_packages_of_the_host(home: Home) -> None:
    for name, _ in entries(inside.brought_interpreter(home)):
        assert not {"site-packages", "dist-packages"} & set(Path(name).parts)


# ---- the cache -----------------------------------------------------------------------------------


def test_what_is_built_is_used_again(home: Home) -> None:
    first = inside.synthetic_etc(home)
    os.utime(first, (0, 0))
    number = first.stat().st_ino
    assert inside.synthetic_etc(home) == first
    assert first.stat().st_ino == number
    assert first.stat().st_mtime > 0  # the use is noted: `paddock gc` leaves it


def test_what_was_removed_meanwhile_is_built_again(home: Home) -> None:
    """By `paddock gc`, say, while a process that had used it goes on."""
    first = inside.synthetic_etc(home)
    remove_tree(first)
    assert (inside.synthetic_etc(home) / "passwd").exists()


_BUILD = """
import sys
from pathlib import Path
from paddock.fence.container import inside
from paddock.state.home import Home
home = Home(Path(sys.argv[1]))
home.make()
input()
print(inside.kernel_code(home, inside.interpreter_path()))
print(inside.synthetic_etc(home))
"""


def test_processes_that_build_at_once_end_with_one_whole_result(tmp_path: Path) -> None:
    builders = [
        subprocess.Popen(
            [sys.executable, "-c", _BUILD, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for builder in builders:
        assert builder.stdin is not None
        builder.stdin.write("\n")
        builder.stdin.flush()
    said = [builder.communicate(timeout=60)[0].split() for builder in builders]
    assert all(builder.returncode == 0 for builder in builders)
    assert said[0] == said[1] == said[2]
    code, etc = map(Path, said[0])
    assert (code / "kernel" / "kernel.py").exists()
    assert (etc / "passwd").exists()
    assert sorted(os.listdir(tmp_path / "cache")) == sorted(["sites", code.name, etc.name])


def test_build_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.make()

    def build(directory: Path) -> None:
        (directory / "half").write_text("x")
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        inside._built(home, "thing", build)
    assert os.listdir(home.cache) == ["sites"]
