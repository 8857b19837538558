"""Which requirement lines apply to which interpreter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.state.markers import applies, canonical_name, satisfies, split_requirement

FACTS = {
    "python_version": "3.11",
    "python_full_version": "3.11.2",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "implementation_name": "cpython",
}


@pytest.mark.parametrize(
    ("line", "name", "marker"),
    [
        ("jedi>=0.18.2", "jedi", ""),
        ("prompt_toolkit<3.1.0,>=3.0.41", "prompt_toolkit", ""),
        ("pexpect>4.6; sys_platform != 'win32'", "pexpect", "sys_platform != 'win32'"),
        ("parso (<0.9.0,>=0.8.7)", "parso", ""),
        ("ipykernel[test] ; extra == 'kernel'", "ipykernel", "extra == 'kernel'"),
        ("thing @ https://example.org/t.whl ; os_name == 'nt'", "thing", "os_name == 'nt'"),
    ],
)
def test_requirement_lines_are_split(line: str, name: str, marker: str) -> None:
    assert split_requirement(line) == (name, marker)


@for_each(
    ("marker", "expected"),
    [
        ("", True),
        ("sys_platform == 'win32'", False),
        ('sys_platform != "win32" and sys_platform != "emscripten"', True),
        ('python_version < "3.12"', True),
        ('python_version < "3.9"', False),
        ('python_version >= "3.11"', True),
        ('python_full_version < "3.11.3"', True),
        ('python_version == "3.*"', True),
        ('python_version ~= "3.10"', True),
        ('"3.11" <= python_version', True),
        ("extra == 'test'", False),
        ("extra == 'test' or os_name == 'posix'", True),
        ("(extra == 'a' or extra == 'b') and os_name == 'posix'", False),
        ("os_name == 'nt' and os_name == 'x' or sys_platform == 'linux'", True),
        ("sys_platform in 'linux darwin'", True),
        ("sys_platform not in 'linux darwin'", False),
    ],
)
def test_markers_are_evaluated(marker: str, expected: bool) -> None:
    assert applies(marker, FACTS) is expected


@given(marker=st.text(max_size=40) | st.text("()'\"=<>! andorextra_p.1", max_size=40))
def test_marker_that_cannot_be_read_counts_as_applying_and_never_raises(marker: str) -> None:
    assert applies(marker, FACTS) in (True, False)
    assert applies("nonsense ???", FACTS) is True


@pytest.mark.parametrize(
    ("version", "bounds", "expected"),
    [
        ("3.11.2", ">=3.11", True),
        ("3.10.13", ">=3.11", False),
        ("3.11", ">=3.11.0", True),
        ("3.12.0rc1", ">=3.10, !=3.11.0, <4", True),
        ("3.11.0", ">=3.10, !=3.11.0", False),
        ("3.9", "", True),
    ],
)
def test_versions_are_held_against_bounds(version: str, bounds: str, expected: bool) -> None:
    assert satisfies(version, bounds) is expected


def test_names_have_one_spelling() -> None:
    assert {canonical_name(n) for n in ("Stack_Data", "stack.data", "stack--data")} == {
        "stack-data"
    }
