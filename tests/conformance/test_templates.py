"""Other roots than the host's: a directory with next to nothing in it works like any other."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.conftest import MakeBox
from paddock import HostCannot, InvalidInput, NotFound, Sandbox

PROGRAMS = ("sh", "ls", "cat", "echo", "sleep", "mkdir", "env", "id", "rm", "touch", "head", "stty")


def _libraries(program: str) -> set[str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return {word for word in listed.split() if word.startswith("/")}


def _fill_with_busybox(root: Path, busybox: str) -> None:
    shutil.copy(busybox, root / "bin" / "busybox")
    for name in PROGRAMS:
        (root / "bin" / name).symlink_to("busybox")


def _fill_with_copies(root: Path) -> None:
    """Programs of the host with the libraries that they name, where they name them."""
    for name in PROGRAMS:
        program = os.path.realpath(shutil.which(name) or name)
        shutil.copy(program, root / "bin" / name)
        for library in _libraries(program):
            place = root / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                shutil.copy(os.path.realpath(library), place)


def fill_root(root: Path) -> None:
    """Makes a root without Python, bash or /usr."""
    for name in ("bin", "etc", "tmp", "proc", "dev", "opt"):
        (root / name).mkdir(parents=True)
    (root / "etc" / "issue").write_text("tiny\n")
    (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "opt" / "data").write_text("of the template")
    busybox = shutil.which("busybox")
    is_static = busybox is not None and not _libraries(busybox)
    if busybox is not None and is_static:
        _fill_with_busybox(root, busybox)
    else:
        _fill_with_copies(root)


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "root"
    fill_root(root)
    return root


@pytest.fixture
def tiny(make_box: MakeBox, rootfs: Path) -> Sandbox:
    return make_box(template=f"dir:{rootfs}")


def test_template_without_python_runs_its_own_programs(tiny: Sandbox) -> None:
    assert tiny.commands.run(["cat", "/etc/issue"]).stdout == "tiny\n"
    assert tiny.commands.run("echo $((20 + 1)) $HOME").stdout == "21 /home/user\n"
    assert not tiny.files.exists("/usr/bin/python3")
    assert tiny.get_info().template.startswith("dir:")


def test_files_of_a_template_can_be_read_and_changed_for_oneself(
    tiny: Sandbox, rootfs: Path, make_box: MakeBox
) -> None:
    assert tiny.files.read("/opt/data") == "of the template"
    tiny.commands.run("mkdir d; echo x > d/f")
    assert tiny.files.read("d/f") == "x\n"
    tiny.files.write("notes", "y")
    assert [e.name for e in tiny.files.list(".")] == ["d", "notes"]
    assert sorted(p.name for p in (rootfs / "opt").iterdir()) == ["data"]


def test_changes_to_the_root_stay_in_the_sandbox(
    tiny: Sandbox, rootfs: Path, make_box: MakeBox
) -> None:
    try:
        tiny.commands.run("echo changed > /opt/data; touch /opt/new; rm /etc/issue")
    except Exception as error:  # a read-only root is as good, as long as it says so
        assert "Read-only" in str(error) or "Permission" in str(error)
    assert (rootfs / "opt" / "data").read_text() == "of the template"
    assert (rootfs / "etc" / "issue").exists() and not (rootfs / "opt" / "new").exists()
    other = make_box(template=f"dir:{rootfs}")
    assert other.files.read("/opt/data") == "of the template"


def test_code_runs_in_a_template_without_python(tiny: Sandbox) -> None:
    assert tiny.run_code("x = 6").error is None
    execution = tiny.run_code("import json, os, sys; print(os.getcwd()); x * 7")
    assert (execution.text, execution.logs.stdout) == ("42", ("/home/user\n",))
    assert tiny.run_code("1/0").error.name == "ZeroDivisionError"  # type: ignore[union-attr]


def test_code_in_a_template_can_start_its_programs(tiny: Sandbox) -> None:
    execution = tiny.run_code("import subprocess; subprocess.check_output(['cat', '/etc/issue'])")
    assert execution.text == r"b'tiny\n'"


def test_terminals_work_in_a_template(tiny: Sandbox) -> None:
    shown: list[bytes] = []
    tiny.pty.create(rows=20, cols=60, cmd=["stty", "size"], on_data=shown.append).wait()
    assert b"".join(shown) == b"20 60\r\n"


def test_agent_is_unprivileged_in_a_template(tiny: Sandbox) -> None:
    assert tiny.commands.run(["id", "-u"]).stdout == "1000\n"
    assert tiny.files.read("/etc/passwd").splitlines()[0] == "root:x:0:0::/root:/bin/sh"


def test_nothing_of_the_host_shows_in_a_template(tiny: Sandbox) -> None:
    for path in ("/usr/bin", "/etc/os-release", "/root", "/var/log", "/etc/shadow"):
        assert not tiny.files.exists(path), path


def test_fork_snapshot_and_changes_work_in_a_template(tiny: Sandbox, make_box: MakeBox) -> None:
    tiny.files.write("f", "x")
    with tiny.fork() as child:
        assert child.commands.run(["cat", "f", "/etc/issue"]).stdout == "xtiny\n"
    restored = make_box(template=tiny.get_info().template, snapshot=tiny.snapshot())
    assert restored.commands.run(["cat", "f"]).stdout == "x"
    assert tiny.changes().added == ["/home/user/f"]


def test_exec_events_are_told_in_a_template(tiny: Sandbox) -> None:
    tiny.commands.run("/bin/cat /etc/issue; true")
    assert ("/bin/cat", "/etc/issue") in [e.argv for e in tiny.exec_events()]


def test_missing_template_is_an_error_that_names_it(make_box: MakeBox) -> None:
    with pytest.raises((InvalidInput, HostCannot, NotFound), match="/no/such/root"):
        make_box(template="dir:/no/such/root")
    with pytest.raises((InvalidInput, NotFound), match="never-added"):
        make_box(template="never-added")


@pytest.mark.parametrize("template", ["dir:relative", "dir:", "a/b", "", 7])
def test_template_that_is_none_is_invalid(make_box: MakeBox, template: object) -> None:
    with pytest.raises(InvalidInput, match="template"):
        make_box(template=template)
