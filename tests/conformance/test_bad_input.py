"""What the caller can get wrong: an InvalidInput that names the key, and nothing is made."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from conformance.conftest import MakeBox
from conformance.host import sandboxes_of
from paddock import InvalidInput, PaddockError, Sandbox

LIMITS: list[tuple[str, Any]] = [
    *(("cpu", value) for value in (0, -1, "two", math.nan, math.inf, True, None, [1])),
    *(("memory", value) for value in (0, -5, "-5MiB", "5XB", "lots", "", math.nan, None, "1MiB")),
    *(("pids", value) for value in (0, -3, 1.5, "many", True, None, 1)),
    *(("disk", value) for value in (0, "-1GiB", "1 light year", "1PB", "12 34", None, 10)),
    *(("files", value) for value in (0, -1, "all", 2.5, 3)),
    *(("output", value) for value in (0, -1, "1 scroll", None)),
    *(("time", value) for value in (0, -1, "soon", "5 parsecs", math.inf)),
]
TOO_LARGE: list[tuple[str, Any]] = [
    ("cpu", 1e300),
    ("memory", 2**70),
    ("memory", "99999999999TiB"),
    ("memory", 10**400),
    ("pids", 2**40),
    ("disk", 2**70),
    ("files", 2**40),
    ("files", 10**8),
    ("output", 2**70),
    ("time", 10**400),
]


@pytest.fixture(autouse=True)
def nothing_is_made(shared_box: Sandbox) -> Any:
    """A refused spec leaves no sandbox of this process behind."""
    from paddock.doors.machine.engine import Engine

    before = set(Engine.current().boxes)
    yield
    assert set(Engine.current().boxes) <= before


@for_each(("name", "value"), LIMITS, ids=str)
def test_limit_that_makes_no_sense_is_refused_by_name(
    make_box: MakeBox, name: str, value: object
) -> None:
    with pytest.raises(InvalidInput, match=rf"limits\.{name}"):
        make_box(limits={name: value})


@for_each(("name", "value"), TOO_LARGE, ids=lambda v: str(v)[:20])
def test_limit_beyond_what_any_host_has_is_refused_by_name(
    make_box: MakeBox, name: str, value: object
) -> None:
    with pytest.raises(PaddockError, match=name):
        make_box(limits={name: value})


def test_unknown_limit_is_refused_and_the_known_ones_are_told(make_box: MakeBox) -> None:
    with pytest.raises(InvalidInput, match=r"limits.*'ram'.*memory"):
        make_box(limits={"ram": "1GiB"})


@pytest.mark.parametrize("limits", [5, "cpu=1", ["cpu"], [1, 2]])
def test_limits_that_are_no_mapping_are_refused(make_box: MakeBox, limits: object) -> None:
    with pytest.raises(InvalidInput, match="limits"):
        make_box(limits=limits)


@pytest.mark.parametrize("mode", ["rw", "READ", "", None, 7, ["read"]])
def test_unknown_mount_mode_is_refused(make_box: MakeBox, tmp_path: Path, mode: object) -> None:
    with pytest.raises(InvalidInput, match=r"mounts\.mode.*read, write or overlay"):
        make_box(mounts=[{"source": str(tmp_path), "target": "/x", "mode": mode}])


@pytest.mark.parametrize("source", ["/no/such/source", "", 7, "a\0b", b"/tmp"])
def test_missing_source_is_refused(make_box: MakeBox, source: object) -> None:
    with pytest.raises(InvalidInput, match=r"mounts\.source"):
        make_box(mounts=[{"source": source, "target": "/x"}])


@pytest.mark.parametrize("target", ["relative", "", ".", "/a/../b", "a\0b", 7, None])
def test_target_that_is_no_absolute_path_is_refused(
    make_box: MakeBox, tmp_path: Path, target: object
) -> None:
    with pytest.raises(InvalidInput, match=r"mounts\.target"):
        make_box(mounts=[{"source": str(tmp_path), "target": target}])


@pytest.mark.parametrize(
    "target",
    ["/", "//", "/.", "/proc", "/proc/1", "/sys", "/dev/shm", "/usr/lib", "/etc", "/etc/passwd",
     "/bin", "/lib64", "/run", "/.paddock", "/.paddock/guest", "/usr/", "//usr//bin", "/./etc"],
)  # fmt: skip
def test_reserved_target_is_refused(make_box: MakeBox, tmp_path: Path, target: str) -> None:
    with pytest.raises(InvalidInput, match=r"mounts\.target.*system path"):
        make_box(mounts=[{"source": str(tmp_path), "target": target}])


@pytest.mark.parametrize("second", ["/x", "/x/", "//x", "/./x"])
def test_duplicate_target_is_refused(make_box: MakeBox, tmp_path: Path, second: str) -> None:
    mounts = [{"source": str(tmp_path), "target": target} for target in ("/x", second)]
    with pytest.raises(InvalidInput, match=r"mounts\.target.*twice"):
        make_box(mounts=mounts)


@for_each(
    "mount",
    [{}, {"source": "/tmp"}, {"target": "/x"}, {"source": "/tmp", "volume": "v", "target": "/x"},
     {"source": "/tmp", "target": "/x", "readonly": True}, "string", None, 7,
     {"volume": "v", "target": "/x", "mode": "overlay"}],
)  # fmt: skip
def test_mount_with_missing_or_unknown_keys_is_refused(make_box: MakeBox, mount: object) -> None:
    with pytest.raises(InvalidInput, match="mounts"):
        make_box(mounts=[mount])


@pytest.mark.parametrize("mounts", [5, "abc", {"source": "/tmp", "target": "/x"}, True])
def test_mounts_that_are_no_list_are_refused(make_box: MakeBox, mounts: object) -> None:
    with pytest.raises(InvalidInput, match="mounts"):
        make_box(mounts=mounts)


@for_each(
    "timeout",
    [0, -1, "soon", "", math.nan, math.inf, 1e18, "999999999999d", 10**400, True, [1]],
    ids=lambda v: str(v)[:12],
)
def test_timeout_that_makes_no_sense_is_refused(make_box: MakeBox, timeout: object) -> None:
    with pytest.raises(InvalidInput, match="timeout"):
        make_box(timeout=timeout)


@pytest.mark.parametrize("timeout", [-1, "soon", math.nan, math.inf, 1e18, True, [1]])
def test_timeout_of_a_call_that_makes_no_sense_is_refused(
    shared_box: Sandbox, timeout: object
) -> None:
    for call in (
        lambda: shared_box.commands.run("true", timeout=timeout),  # type: ignore[call-overload]
        lambda: shared_box.run_code("1", timeout=timeout),
        lambda: shared_box.set_timeout(timeout),
    ):
        with pytest.raises(InvalidInput, match="timeout"):
            call()
    assert shared_box.is_running()


@for_each(
    "envs", [5, ["A"], "A=1", {"A B": "x"}, {"": "x"}, {"A=B": "x"}, {"A": 1}, {"A": "x\0y"},
             {"A": None}, {1: "x"}],
)  # fmt: skip
def test_envs_that_are_none_are_refused(
    make_box: MakeBox, shared_box: Sandbox, envs: object
) -> None:
    with pytest.raises(InvalidInput, match="envs"):
        make_box(envs=envs)
    with pytest.raises(InvalidInput, match="envs"):
        shared_box.commands.run("true", envs=envs)  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match="envs"):
        shared_box.run_code("1", envs=envs)


@pytest.mark.parametrize("metadata", [5, {"a": 1}, {1: "a"}, "x"])
def test_metadata_that_is_no_text_is_refused(make_box: MakeBox, metadata: object) -> None:
    with pytest.raises(InvalidInput, match="metadata"):
        make_box(metadata=metadata)


def test_unknown_keyword_is_refused() -> None:
    with pytest.raises((TypeError, InvalidInput), match="memory"):
        Sandbox.create(memory="1GiB")  # type: ignore[call-arg]


@pytest.mark.parametrize("cwd", ["", 7, "a\0b", b"/tmp"])
def test_cwd_that_is_no_path_is_refused(shared_box: Sandbox, cwd: object) -> None:
    with pytest.raises(InvalidInput, match=r"cwd|path"):
        shared_box.commands.run("true", cwd=cwd)  # type: ignore[call-overload]


@pytest.mark.parametrize("pid", ["x", None, 2**70, -1])
def test_pid_that_is_none_is_refused(shared_box: Sandbox, pid: object) -> None:
    with pytest.raises(PaddockError):
        shared_box.commands.connect(pid)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [-1, "2", 1.5, None])
def test_pool_size_that_is_none_is_refused(driver: str, size: object) -> None:
    with pytest.raises(InvalidInput, match="pool"):
        Sandbox.pool(size)  # type: ignore[arg-type]


def test_bad_specs_leave_no_directories(make_box: MakeBox, private_home: Path) -> None:
    box = make_box()
    before = sandboxes_of(private_home)
    for spec in ({"limits": {"cpu": -1}}, {"mounts": [{"source": "/none", "target": "/x"}]}):
        with pytest.raises(InvalidInput):
            make_box(**spec)
    with pytest.raises(PaddockError):
        make_box(snapshot="snap-" + "0" * 32)
    assert sandboxes_of(private_home) == before
    assert box.is_running()
