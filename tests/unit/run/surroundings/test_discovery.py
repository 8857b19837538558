"""What is found for a command, and what of the host never is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from paddock.model.errors import CommandNotStarted, InvalidInput
from paddock.run.surroundings import Surroundings, find
from unit.run.surroundings.conftest import User, program


def _compile(*words: str) -> None:
    subprocess.run(["gcc", *words], check=True, timeout=60)


def targets(found: Surroundings) -> list[str]:
    return [mount.target for mount in found.mounts[1:]]


def test_program_of_the_system_needs_nothing_but_the_project(user: User) -> None:
    found = user.find("true")
    assert [(m.target, m.mode) for m in found.mounts] == [(str(user.project), "overlay")]
    assert found.argv == ("true",)


def test_command_that_is_not_there_is_refused_with_where_it_was_looked_for(user: User) -> None:
    with pytest.raises(CommandNotStarted, match=r"no-such: it was not found(?s:.*)/usr/bin, /bin"):
        user.find("no-such")


def test_file_that_is_no_program_is_refused_with_what_to_do(user: User) -> None:
    (user.project / "agent.py").write_text("print(1)")
    with pytest.raises(CommandNotStarted, match=r"no program(?s:.*)chmod"):
        user.find("./agent.py")


def test_directory_is_refused_as_one(user: User) -> None:
    with pytest.raises(CommandNotStarted, match="it is a directory"):
        user.find("./")


def test_no_command_is_refused(user: User) -> None:
    with pytest.raises(InvalidInput, match="no command"):
        user.find()


@pytest.mark.parametrize("place", ["/", "/home", "/tmp", "/usr/share", "/etc"])
def test_system_directory_is_no_project(user: User, place: str) -> None:
    with pytest.raises(InvalidInput):
        user.find("true", cwd=Path(place))


def test_home_and_what_holds_it_are_no_project(user: User) -> None:
    for place in (user.home, user.home.parent):
        with pytest.raises(InvalidInput, match="home"):
            user.find("true", cwd=place)


def test_home_that_the_system_knows_is_no_project_whatever_the_environment_says(
    user: User,
) -> None:
    with pytest.raises(InvalidInput, match="home"):
        find(["true"], Path("~").expanduser(), {"HOME": str(user.home), "PATH": "/usr/bin"})


@pytest.mark.parametrize("name", [".ssh", ".config/tool", ".cache"])
def test_dot_directory_of_the_home_is_no_project(user: User, name: str) -> None:
    (user.home / name).mkdir(parents=True)
    with pytest.raises(InvalidInput, match="settings and keys"):
        user.find("true", cwd=user.home / name)


def test_project_reached_by_a_link_is_where_it_really_is(user: User) -> None:
    (user.home / "link").symlink_to(user.project)
    found = user.find("true", cwd=user.home / "link")
    assert found.cwd == found.project.target == str(user.project)


def test_environment_of_the_host_is_not_passed_on(user: User) -> None:
    user.environ |= {"LANG": "C.UTF-8", "TZ": "UTC", "LC_TIME": "C", "OPENAI_API_KEY": "value"}
    user.environ |= {"SSH_AUTH_SOCK": "/run/x", "PYTHONPATH": "/x", "LD_PRELOAD": "/x"}
    assert set(user.find("true").envs) == {"LANG", "TZ", "LC_TIME", "PATH"}


def test_path_inside_has_only_what_is_there(user: User) -> None:
    program(user.home / "bin" / "tool")
    program(user.project / "bin" / "own")
    user.put_first_on_path(user.home / "bin", user.project / "bin", Path("/no/such"))
    path = user.find("own").envs["PATH"].split(":")
    assert path[:2] == [str(user.project / "bin"), "/usr/bin"]
    assert str(user.home / "bin") not in path
    assert "/no/such" not in path


def test_single_program_of_the_home_is_mounted_alone(user: User) -> None:
    tool = program(user.home / "bin" / "tool")
    program(user.home / "bin" / "other")
    user.put_first_on_path(user.home / "bin")
    found = user.find("tool", "x")
    assert targets(found) == [str(tool)]
    assert found.argv == (str(tool), "x")


def test_program_behind_a_link_in_the_home_runs_by_its_real_name(user: User) -> None:
    tool = program(user.home / ".local/share/apps/tool/tool")
    (user.home / ".local/bin").mkdir()
    (user.home / ".local/bin/tool").symlink_to(tool)
    user.put_first_on_path(user.home / ".local/bin")
    found = user.find("tool")
    assert targets(found) == [str(tool)]
    assert found.argv == (str(tool),)


def test_interpreter_of_a_script_is_found_by_its_first_line(user: User) -> None:
    lisp = program(user.home / "lisp" / "lisp")
    program(user.project / "agent", f"#!{lisp} -x\n")
    assert targets(user.find("./agent")) == [str(lisp)]


def test_interpreter_of_a_script_is_looked_up_as_env_would(user: User) -> None:
    lisp = program(user.home / "lisp" / "lisp")
    program(user.project / "agent", "#!/usr/bin/env -S A=1 lisp --x\n")
    with pytest.raises(CommandNotStarted, match="lisp: it was not found"):
        user.find("./agent")
    user.put_first_on_path(user.home / "lisp")
    assert targets(user.find("./agent")) == [str(lisp)]


def test_script_outside_of_the_project_is_mounted_for_its_interpreter(user: User) -> None:
    script = user.home / "tools" / "agent.py"
    script.parent.mkdir()
    script.write_text("print(1)")
    assert targets(user.find("python3", "-u", "../../tools/agent.py")) == [str(script)]
    assert targets(user.find("cat", str(script))) == []


@pytest.mark.parametrize("name", [".ssh/id_rsa", ".ssh/script.py", ".aws/x.py", "x/.env", ".netrc"])
def test_key_is_never_mounted_even_when_it_is_named_as_the_script(user: User, name: str) -> None:
    key = user.home / name
    key.parent.mkdir(exist_ok=True)
    key.write_text("SECRET")
    found = user.find("python3", str(key))
    assert targets(found) == []
    assert str(key) in found.omitted[0]


def test_program_that_is_a_link_to_a_key_is_refused(user: User) -> None:
    key = program(user.home / ".ssh" / "tool")
    (user.project / "tool").symlink_to(key)
    with pytest.raises(InvalidInput, match="keys"):
        user.find("./tool")


def test_links_in_a_circle_are_no_program(user: User) -> None:
    (user.project / "a").symlink_to("b")
    (user.project / "b").symlink_to("a")
    with pytest.raises(CommandNotStarted):
        user.find("./a")


def test_program_with_parts_beside_it_gets_them(user: User) -> None:
    tool = program(user.home / "app" / "tool")
    (user.home / "app" / "_internal").mkdir()
    assert targets(user.find(str(tool))) == [str(tool.parent / "_internal"), str(tool)]


def test_libraries_outside_of_the_system_are_found_without_running_anything(user: User) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler on this host")
    lib, app = user.home / "libs", user.home / "app"
    for directory in (lib, app):
        directory.mkdir()
    (lib / "one.c").write_text("int one(void) { return 7; }")
    (app / "main.c").write_text("int one(void); int main(void) { return one(); }")
    _compile("-shared", "-o", f"{lib}/libone.so", f"{lib}/one.c")
    rpath = "-Wl,-rpath,$ORIGIN/../libs"
    _compile("-o", f"{app}/main", f"{app}/main.c", f"-L{lib}", "-lone", rpath)
    assert targets(user.find(str(app / "main"))) == [str(app / "main"), str(lib / "libone.so")]


def test_program_of_an_agent_cannot_name_files_to_be_mounted(user: User) -> None:
    """A library must be one, whatever a program in the project says that it loads."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler on this host")
    (user.home / "libprivate.so").write_text("int one(void) { return 7; }")
    (user.project / "libprivate.c").write_text("int one(void) { return 7; }")
    (user.project / "main.c").write_text("int one(void); int main(void) { return one(); }")
    project = str(user.project)
    _compile("-shared", "-o", f"{project}/libprivate.so", f"{project}/libprivate.c")
    words = [f"-L{project}", "-lprivate", f"-Wl,-rpath,{user.home}"]
    _compile("-o", f"{project}/main", f"{project}/main.c", *words)
    assert targets(user.find("./main")) == []


def test_link_in_the_project_to_a_file_that_is_no_program_is_refused(user: User) -> None:
    (user.home / "private.txt").write_text("SECRET")
    (user.home / "private.txt").chmod(0o755)
    (user.project / "agent").symlink_to(user.home / "private.txt")
    with pytest.raises(CommandNotStarted, match="no program"):
        user.find("./agent")


def test_each_mount_says_why(user: User) -> None:
    program(user.home / "bin" / "tool")
    user.put_first_on_path(user.home / "bin")
    found = user.find("tool")
    assert [m.why for m in found.mounts] == ["the project", "the program"]
    assert str(found.mounts[1]) == f"{user.home}/bin/tool (the program)"
