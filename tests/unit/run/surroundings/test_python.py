"""Environments of Python: those that are active, the project's own, and what is behind them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.model.errors import InvalidInput
from paddock.run.surroundings import Surroundings
from unit.run.surroundings.conftest import User, link_tree, program, real_base

CODE = "import sys, json; print(json.dumps([sys.prefix, sys.base_prefix]))"
VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def targets(found: Surroundings) -> list[str]:
    return [mount.target for mount in found.mounts[1:]]


def make_venv(path: Path, base: str = sys.executable) -> Path:
    """A real one, of the interpreter that runs the tests; its base may lie outside of /usr."""
    words = [base, "-m", "venv", "--without-pip", str(path)]
    subprocess.run(words, check=True, timeout=60)
    return path


def site_of(venv: Path) -> Path:
    return venv / "lib" / VERSION / "site-packages"


@pytest.fixture(scope="module")
def base() -> str:
    return os.path.realpath(real_base() / "bin" / VERSION)


def test_environment_of_the_project_runs_without_being_active(
    user: User, run_inside: Callable[..., str], base: str
) -> None:
    venv = make_venv(user.project / ".venv", base)
    (site_of(venv) / "own_module.py").write_text("print('of the environment')")
    (user.project / "agent.py").write_text(f"import own_module\n{CODE}")
    found = user.find("python", "agent.py")
    first, prefixes = run_inside(found).splitlines()
    assert first == "of the environment"
    assert json.loads(prefixes)[0] == str(venv)
    assert found.argv == ("python", "agent.py")


def test_active_environment_outside_of_the_project_is_mounted_with_its_base(
    user: User, run_inside: Callable[..., str], base: str
) -> None:
    venv = make_venv(user.home / "envs" / "one", base)
    user.environ["VIRTUAL_ENV"] = str(venv)
    found = user.find("python", "-c", CODE)
    assert str(venv) in targets(found)
    assert json.loads(run_inside(found))[0] == str(venv)
    assert found.envs["VIRTUAL_ENV"] == str(venv)


def test_shell_inside_finds_the_environment_too(
    user: User, run_inside: Callable[..., str], base: str
) -> None:
    venv = make_venv(user.home / "envs" / "one", base)
    user.environ["VIRTUAL_ENV"] = str(venv)
    found = user.find("sh", "-c", f"python -c '{CODE}'")
    assert json.loads(run_inside(found))[0] == str(venv)


def test_environment_that_owns_the_named_python_is_mounted(user: User, base: str) -> None:
    venv = make_venv(user.home / "envs" / "one", base)
    assert str(venv) in targets(user.find(str(venv / "bin" / "python"), "x.py"))


def test_environment_of_a_parent_is_found_up_to_the_repository(user: User, base: str) -> None:
    venv = make_venv(user.project / ".venv", base)
    inner = user.project / "services" / "agent"
    inner.mkdir(parents=True)
    assert str(venv) in targets(user.find("python", cwd=inner))
    (inner / ".git").mkdir()
    assert str(venv) not in targets(user.find("python3", cwd=inner))


def test_script_of_an_environment_by_a_link_in_the_home_is_found(user: User, base: str) -> None:
    venv = make_venv(user.home / ".local/share/pipx/venvs/tool", base)
    program(venv / "bin" / "tool", f"#!{venv}/bin/python\n")
    (user.home / ".local/bin").mkdir()
    (user.home / ".local/bin/tool").symlink_to(venv / "bin" / "tool")
    user.put_first_on_path(user.home / ".local/bin")
    found = user.find("tool")
    assert str(venv) in targets(found)
    assert found.argv == (str(venv / "bin" / "tool"),)


@pytest.mark.parametrize(
    "place", [".local/share/uv/python/cpython-3.12.1", ".pyenv/versions/3.12.1", "miniconda3"]
)
def test_interpreter_of_a_version_manager_is_mounted_as_that_version_alone(
    user: User, place: str
) -> None:
    prefix = link_tree(user.home / place, real_base())
    (prefix.parent / "secret").write_text("beside it")
    user.put_first_on_path(prefix / "bin")
    found = user.find("python3")
    assert str(prefix) in targets(found)
    assert not any(t in str(prefix.parent) for t in targets(found))


def test_base_that_is_named_by_a_link_is_there_under_both_names(user: User) -> None:
    store = user.home / ".local/share/uv/python"
    prefix = link_tree(store / "cpython-3.12.1", real_base())
    (store / "cpython-3.12").symlink_to(prefix.name)
    venv = user.project / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text(f"home = {store}/cpython-3.12/bin\n")
    (venv / "bin" / "python").symlink_to(store / "cpython-3.12" / "bin" / "python3")
    assert {str(prefix), f"{store}/cpython-3.12"} <= set(targets(user.find("python")))


def _venv_by_hand(root: Path, home: Path, python: Path) -> None:
    """What `venv`, `virtualenv` and uv write, with a package in it."""
    site_of(root).mkdir(parents=True)
    (site_of(root) / "own_module.py").write_text("print('of the environment')")
    (root / "bin").mkdir()
    (root / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    (root / "bin" / "python").symlink_to(python)


def _link_of_the_prefix(top: Path, prefix: Path) -> Path:
    """uv: a name for each minor version, which leads to the newest of it."""
    (top / "cpython-minor").symlink_to(prefix)
    return top / "cpython-minor" / "bin" / VERSION


def _link_in_a_bin(top: Path, prefix: Path) -> Path:
    """uv and others: ~/.local/bin/python3.12, from which `python3.12 -m venv` was called."""
    bin_ = top / ".local" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / VERSION).symlink_to(_link_of_the_prefix(top, prefix))
    (bin_ / "other").write_text("not for the agent")
    return bin_ / VERSION


def _link_of_the_bin(top: Path, prefix: Path) -> Path:
    (top / "pythons").symlink_to(prefix / "bin")
    return top / "pythons" / VERSION


def _prefix_of_links(top: Path, prefix: Path) -> Path:
    """conda, stow: each part of the prefix is a link of its own."""
    (top / "current").mkdir()
    for name in ("bin", "lib"):
        (top / "current" / name).symlink_to(prefix / name)
    return top / "current" / "bin" / VERSION


def _link_in_the_project(top: Path, prefix: Path) -> Path:
    (top / "work" / "project" / "python").symlink_to(prefix)
    return top / "work" / "project" / "python" / "bin" / VERSION


def _environment_of_an_environment(top: Path, prefix: Path) -> Path:
    outer = top / "outer"
    _venv_by_hand(outer, prefix / "bin", _link_of_the_prefix(top, prefix))
    return outer / "bin" / "python"


@pytest.mark.parametrize(
    "layout",
    [_link_of_the_prefix, _link_in_a_bin, _link_of_the_bin, _prefix_of_links,
     _link_in_the_project, _environment_of_an_environment],
    ids=lambda layout: layout.__name__.strip("_"),
)  # fmt: skip
def test_environment_keeps_its_packages_however_its_base_is_linked(
    user: User, run_inside: Callable[..., str], layout: Callable[[Path, Path], Path], base: str
) -> None:
    python = layout(user.home, Path(base).parent.parent)
    _venv_by_hand(user.project / ".venv", python.parent, python)
    code = "import own_module, ssl, sys; print(sys.prefix); import subprocess as s"
    code += "; s.run([sys.executable, '-c', 'import own_module'], check=True)"
    found = user.find("python", "-c", code)
    words = run_inside(found).splitlines()
    assert sorted(words) == sorted([str(user.project / ".venv"), *["of the environment"] * 2])
    assert found.argv[0] == "python"
    assert not any("other" in mount.target for mount in found.mounts)


def test_link_is_shown_without_what_lies_beside_it(
    user: User, run_inside: Callable[..., str], base: str
) -> None:
    python = _link_in_a_bin(user.home, Path(base).parent.parent)
    _venv_by_hand(user.project / ".venv", python.parent, python)
    found = user.find("python", "-c", f"import os; print(os.listdir({str(python.parent)!r}))")
    assert run_inside(found) == f"{[VERSION]}\n"


def test_link_in_the_home_itself_does_not_open_the_home(user: User, base: str) -> None:
    (user.home / VERSION).symlink_to(base)
    _venv_by_hand(user.project / ".venv", user.home, user.home / VERSION)
    found = user.find("python")
    assert not any(mount.target == str(user.home) for mount in found.mounts)
    assert any(str(user.home / VERSION) in text for text in found.omitted)


def test_shim_of_pyenv_gives_way_to_the_version_that_it_stands_for(user: User) -> None:
    root = user.home / ".pyenv"
    for number in ("3.11.2", "3.11.10", "3.12.1"):
        link_tree(root / "versions" / number, real_base())
    program(root / "shims" / "python")
    (root / "version").write_text("3.12.1\n")
    user.put_first_on_path(root / "shims")
    assert str(root / "versions/3.12.1") in targets(user.find("python"))
    (user.project / ".python-version").write_text("3.11\n")
    found = user.find("python")
    assert str(root / "versions/3.11.10") in targets(found)
    assert found.envs["PATH"].startswith(f"{root}/versions/3.11.10/bin:")
    user.environ["PYENV_VERSION"] = "3.11.2"
    assert str(root / "versions/3.11.2") in targets(user.find("python"))


@pytest.mark.parametrize("wanted", ["../../../secret", "/etc", "system", "9.9"])
def test_version_file_of_a_project_leads_nowhere_else(user: User, wanted: str) -> None:
    root = user.home / ".pyenv"
    (root / "versions").mkdir(parents=True)
    program(root / "shims" / "python3")
    program(user.home / "secret" / "bin" / "python3")
    (user.project / ".python-version").write_text(wanted)
    user.put_first_on_path(root / "shims")
    assert targets(user.find("python3")) == []


def test_shim_of_asdf_gives_way_to_the_version_that_it_stands_for(user: User) -> None:
    root = user.home / ".asdf"
    prefix = link_tree(root / "installs/python/3.12.1", real_base())
    program(root / "shims" / "python")
    (user.project / ".tool-versions").write_text("nodejs 20.1.0\npython 3.12.1 # ours\n")
    user.put_first_on_path(root / "shims")
    assert str(prefix) in targets(user.find("python"))


def test_conda_environment_is_one_unit(user: User) -> None:
    prefix = link_tree(user.home / "miniconda3" / "envs" / "agent", real_base())
    (prefix / "conda-meta").mkdir()
    user.environ["CONDA_PREFIX"] = str(prefix)
    found = user.find("python")
    assert str(prefix) in targets(found)
    assert found.envs["CONDA_PREFIX"] == str(prefix)


def test_linked_packages_are_mounted_from_where_they_are_worked_on(
    user: User, run_inside: Callable[..., str], base: str
) -> None:
    site = site_of(make_venv(user.project / ".venv", base))
    for name in ("by_path", "by_finder", "by_record"):
        (user.home / "code" / name / name).mkdir(parents=True)
        (user.home / "code" / name / name / "__init__.py").write_text(f"print('{name}')")
    (user.home / "code" / "by_path" / ".env").write_text("SECRET")
    (site / "__editable__.by_path-1.0.pth").write_text(f"import os\n{user.home}/code/by_path\n")
    mapping = {"by_finder": f"{user.home}/code/by_finder/by_finder"}
    finder = site / "__editable___by_finder_1_0_finder.py"
    finder.write_text(f"import sys\nMAPPING: dict[str, str] = {mapping!r}\n")
    record = site / "by_record-1.0.dist-info"
    record.mkdir()
    url = {"url": f"file://{user.home}/code/by_record", "dir_info": {"editable": True}}
    (record / "direct_url.json").write_text(json.dumps(url))
    found = user.find(
        "python",
        "-c",
        "import by_path, os; print(os.path.exists(by_path.__path__[0] + '/../.env'))",
    )
    code = f"{user.home}/code"
    assert {f"{code}/by_path", f"{code}/by_finder/by_finder", f"{code}/by_record"} <= set(
        targets(found)
    )
    assert run_inside(found).split() == ["by_path", "False"]
    assert f"{code}/by_path/.env" in found.hidden


def test_code_in_what_installers_leave_is_not_run(user: User, tmp_path: Path, base: str) -> None:
    site = site_of(make_venv(user.project / ".venv", base))
    mark = tmp_path / "ran"
    (site / "evil.pth").write_text(f"import os; os.mkdir({str(mark)!r})\n")
    finder = site / "__editable___evil_finder.py"
    finder.write_text(f"MAPPING = {{'x': __import__('os').mkdir({str(mark)!r})}}")
    user.find("python")
    assert not mark.exists()


def test_linked_package_brings_nothing_that_is_no_python(user: User, base: str) -> None:
    (user.home / "Documents").mkdir()
    (user.home / "Documents" / "private.txt").write_text("SECRET")
    site = site_of(make_venv(user.project / ".venv", base))
    (site / "evil.pth").write_text(f"{user.home}/Documents\n")
    finder = site / "__editable___evil_finder.py"
    finder.write_text(f"MAPPING = {{'x': '{user.home}/Documents/private.txt'}}")
    found = user.find("python")
    assert not any("Documents" in m.source for m in found.mounts)
    assert len(found.omitted) == 2


def test_broken_environment_does_not_keep_other_commands_from_running(user: User) -> None:
    venv = user.project / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("home = /no/such/bin\n")
    (venv / "bin" / "python").symlink_to("/no/such/bin/python")
    assert targets(user.find("true")) == []


def test_environment_of_an_agent_cannot_name_files_to_be_mounted(user: User) -> None:
    private = user.home / "private.txt"
    private.write_text("SECRET")
    venv = user.project / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text(f"home = {user.home}\n")
    (venv / "bin" / "python").symlink_to(private)
    (user.home / "python3").symlink_to(private)
    private.chmod(0o755)
    assert targets(user.find("true")) == []


@pytest.mark.parametrize("place", ["", ".ssh", ".config", ".."])
def test_linked_package_does_not_bring_the_home_or_its_keys(
    user: User, place: str, base: str
) -> None:
    (user.home / place).mkdir(exist_ok=True)
    (user.home / place / "setup.py").write_text("")
    site = site_of(make_venv(user.project / ".venv", base))
    (site / "evil.pth").write_text(f"{user.home / place}\n")
    found = user.find("python")
    assert not any(str(user.home).startswith(m.source) for m in found.mounts)
    assert os.path.normpath(user.home / place) in found.omitted[0]


def test_project_grows_to_the_linked_package_that_holds_it(user: User, base: str) -> None:
    inner = user.project / "examples"
    inner.mkdir()
    site = site_of(make_venv(user.project / ".venv", base))
    (site / "whole.pth").write_text(f"{user.project}\n")
    (user.project / "pyproject.toml").write_text("")
    (user.project / ".env").write_text("SECRET")
    found = user.find("python", cwd=inner)
    assert found.project.target == str(user.project)
    assert found.cwd == str(inner)
    assert found.hidden == (f"{user.project}/.env",)


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (["uv", "run", "python", "a.py"], ["python", "a.py"]),
        (["uv", "run", "--frozen", "a.py", "-x"], ["python", "a.py", "-x"]),
        (["uv", "run", "-m", "agent"], ["python", "-m", "agent"]),
        (["poetry", "run", "python", "-V"], ["python", "-V"]),
    ],
)
def test_launcher_is_left_out_for_the_environment_that_it_would_choose(
    user: User, words: list[str], argv: list[str], base: str
) -> None:
    make_venv(user.project / ".venv", base)
    assert list(user.find(*words).argv) == argv


def test_launcher_that_would_change_the_environment_is_refused(user: User) -> None:
    with pytest.raises(InvalidInput, match="change the environment"):
        user.find("uv", "run", "--with", "requests", "python")


def test_environment_that_poetry_keeps_in_its_cache_is_found(user: User, base: str) -> None:
    digest = hashlib.sha256(os.fsencode(user.project)).digest()
    name = f"project-{base64.urlsafe_b64encode(digest).decode()[:8]}-py3.12"
    venv = make_venv(user.home / ".cache/pypoetry/virtualenvs" / name, base)
    found = user.find("poetry", "run", "python", "x.py")
    assert str(venv) in targets(found)
    assert not any(m.source == str(user.home / ".cache") for m in found.mounts)


def test_packages_of_the_user_come_with_the_systems_python(
    user: User, run_inside: Callable[..., str]
) -> None:
    version = os.path.basename(os.path.realpath("/usr/bin/python3"))
    site = user.home / ".local" / "lib" / version / "site-packages"
    site.mkdir(parents=True)
    (site / "of_the_user.py").write_text("print('here')")
    found = user.find("/usr/bin/python3", "-c", "import of_the_user")
    assert targets(found) == [str(site)]
    assert run_inside(found) == "here\n"
