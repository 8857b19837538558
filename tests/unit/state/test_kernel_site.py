"""The directory that carries IPython into a sandbox: complete, pure, readable, built once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cases import for_each
from paddock.model.errors import HostCannot
from paddock.state import kernel_site as module
from paddock.state.kernel_site import kernel_site, kernel_site_hint, required_name

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    previous = os.umask(0o077)  # the site must be readable for another user all the same
    try:
        built = kernel_site(tmp_path_factory.mktemp("cache"), PYTHON)
    finally:
        os.umask(previous)
    assert built is not None
    return built


def run(site: Path, code: str) -> str:
    """Code on the sandbox's interpreter with the site at the end of its path."""
    prelude = f"import sys; sys.path.append({str(site)!r})\n"
    command = [PYTHON, "-I", "-B", "-c", prelude + code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_shell_runs_from_the_site_alone(site: Path) -> None:
    code = (
        "from IPython.core.interactiveshell import InteractiveShell as Shell\n"
        "import IPython, jedi, pexpect, prompt_toolkit, stack_data\n"
        "print(IPython.__file__)"
    )
    assert run(site, code) == str(site / "IPython" / "__init__.py")


def test_site_is_pure_python_and_small(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix in (".so", ".pyd")]
    assert not (site / "jedi" / "third_party").exists()
    assert sum(path.stat().st_size for path in files) < 40 << 20


def test_package_that_needs_its_compiled_half_is_left_out_whole(site: Path) -> None:
    code = "import importlib.util as u; print(u.find_spec('psutil') is None)"
    if run(Path("/nonexistent"), code) == "False":
        pytest.skip(f"{PYTHON} has a psutil of its own")
    assert run(site, code) == "True"


def test_what_matplotlib_looks_up_by_entry_point_is_there(site: Path) -> None:
    code = (
        "import importlib.metadata as m\n"
        "print([e.value for e in m.entry_points(group='matplotlib.backend') if e.name == 'inline'])"
    )
    assert run(site, code) == "['matplotlib_inline.backend_inline']"


def test_everything_is_readable_for_all_and_writable_for_the_owner_only(site: Path) -> None:
    for path in (site, *site.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)


def test_bytecode_is_used_without_looking_at_the_source(site: Path) -> None:
    tag = run(site, "print(sys.implementation.cache_tag)")
    compiled = site / "IPython" / "core" / "__pycache__" / f"interactiveshell.{tag}.pyc"
    flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
    assert flags == 0b01  # by hash, and the hash is not checked
    assert run(site, "import IPython; print(IPython.__cached__.endswith('.pyc'))") == "True"
    assert str(site).encode() in compiled.read_bytes()
    assert b".building-" not in compiled.read_bytes()


def test_second_call_gives_the_same_directory_and_builds_nothing(site: Path) -> None:
    before = site.stat().st_ino, sorted(os.listdir(site.parent))
    assert kernel_site(site.parent.parent, PYTHON) == site
    assert (site.stat().st_ino, sorted(os.listdir(site.parent))) == before


def test_several_processes_at_once_end_with_one_directory(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from paddock.state.kernel_site import kernel_site\n"
        "print(kernel_site(Path(sys.argv[1]), sys.argv[2]))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, str(tmp_path), PYTHON]
    several = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) for _ in range(3)
    ]
    answers = {process.communicate()[0].strip() for process in several}
    assert len(answers) == 1
    assert sorted(os.listdir(tmp_path)) == [".kernel-site.lock", "sites"]
    assert os.listdir(tmp_path / "sites") == [Path(answers.pop()).name]


def test_leftover_of_a_crashed_build_is_swept_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".building-dead" / "IPython").mkdir(parents=True)
    kernel_site(tmp_path, PYTHON)
    assert not (tmp_path / ".building-dead").exists()


def test_upgrade_of_a_part_makes_a_new_directory(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LAYOUT", 99)
    other = kernel_site(site.parent.parent, PYTHON)
    assert other is not None
    assert other != site
    assert site.is_dir()


def test_without_ipython_there_is_none_and_a_sentence_to_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROOT", "ipython-that-nobody-installed")
    assert kernel_site(tmp_path, PYTHON) is None
    assert list(tmp_path.iterdir()) == []
    assert "pip install 'paddock-sandbox[code]'" in kernel_site_hint()


def test_interpreter_that_cannot_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostCannot, match="/nonexistent/python3"):
        kernel_site(tmp_path, "/nonexistent/python3")


def test_interpreter_that_is_too_old_is_refused_with_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {**module._facts(PYTHON), "python_full_version": "3.8.0", "python_version": "3.8"}
    monkeypatch.setattr(module, "_facts", lambda _: facts)
    with pytest.raises(HostCannot, match=r"needs Python .* 3\.8\.0"):
        kernel_site(tmp_path, PYTHON)


def test_failed_build_leaves_nothing(tmp_path: Path) -> None:
    python, cache = tmp_path / "python3", tmp_path / "cache"
    fails = 'case "$*" in *compileall*) echo cannot compile >&2; exit 9;; esac'
    python.write_text(f'#!/bin/sh\n{fails}\nexec {PYTHON} "$@"\n')
    python.chmod(0o755)
    with pytest.raises(HostCannot, match="failed with 9: cannot compile"):
        kernel_site(cache, str(python))
    assert sorted(os.listdir(cache)) == [".kernel-site.lock", "sites"]
    assert os.listdir(cache / "sites") == []


def test_requirements_are_those_of_the_sandboxs_interpreter() -> None:
    facts = module._facts(PYTHON)
    newer = {**facts, "python_version": "3.13", "python_full_version": "3.13.0"}
    older = {**facts, "python_version": "3.11", "python_full_version": "3.11.0"}
    assert {"ipython", "traitlets", "stack-data", "pexpect"} <= set(module._collect(newer))
    assert set(module._collect(newer)) <= set(module._collect(older))
    assert "pytest" not in module._collect(older)


FACTS = {"python_version": "3.11", "python_full_version": "3.11.2", "sys_platform": "linux"}


@for_each(
    ("line", "name"),
    [
        ("jedi>=0.18.2", "jedi"),
        ("parso (<0.9.0,>=0.8.7)", "parso"),
        ("pexpect>4.6; sys_platform != 'win32'", "pexpect"),
        ("colorama; sys_platform == 'win32'", None),
        ('typing_extensions>=4.6; python_version < "3.12"', "typing_extensions"),
        ('exceptiongroup; python_version < "3.9"', None),
        ("ipykernel[test] ; extra == 'kernel'", None),
        ("both; extra == 'test' or sys_platform == 'linux'", "both"),
        ("thing @ https://example.org/t.whl ; os_name == 'nt'", None),
        ("unreadable; nonsense ???", "unreadable"),
        ("unreadable-bounds (>=1.0.*)", "unreadable-bounds"),
        ("undefined; python_version ~= '3'", "undefined"),
    ],
)
def test_requirement_applies_unless_its_marker_says_otherwise(line: str, name: str | None) -> None:
    assert required_name(line, FACTS) == name


@for_each(
    ("version", "bounds", "expected"),
    [
        ("3.11.2", ">=3.11", True),
        ("3.10.13", ">=3.11", False),
        ("3.11", ">=3.11.0", True),
        ("3.12.0rc1", ">=3.12, !=3.11.0, <4", True),
        ("3.13.0a1+", ">=3.13", True),
        ("3.11.0", ">=3.10, !=3.11.0", False),
        ("3.9", "", True),
        ("3.9", "not bounds", True),
    ],
)
def test_versions_are_held_against_bounds(version: str, bounds: str, expected: bool) -> None:
    assert module._is_supported(version, bounds) is expected
