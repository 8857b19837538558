"""A plan in bubblewrap's words: what is there, in which order, from where. Nothing is mounted."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from paddock.fence.container.launch import BOOT_FD, CHANNEL_FD, SOURCE_FD, STAGE
from paddock.fence.container.plan import (
    INSIDE,
    USER_ID,
    Bind,
    Kind,
    Plan,
    Source,
    arguments,
    masked_names,
    stages,
)
from paddock.model.spec import HOME

LAYER = Source(layer="box1", owner=(7, 7), is_readonly=False)
USR = Source("/usr")
CODE = Source("/cache/inside")
DATA = Source("/srv/data", owner=(1, 1))
PYTHON = ("/usr/bin/python3", "-I", "-c")

# How many words follow each of bubblewrap's that we use.
ARITY = {
    "--hostname": 1, "--uid": 1, "--gid": 1, "--cap-drop": 1, "--ro-bind": 2, "--bind": 2,
    "--symlink": 2, "--proc": 1, "--dev": 1, "--tmpfs": 1, "--size": 1, "--perms": 1,
    "--ro-bind-fd": 2, "--bind-fd": 2, "--remount-ro": 1, "--overlay-src": 1, "--overlay": 3,
    "--chdir": 1,
}  # fmt: skip


def plan(**more: Any) -> Plan:
    made = Plan(
        hostname="box1",
        layer=LAYER,
        layer_path="/layers/box1",
        root=(Bind("/usr", USR, Kind.READ),),
        links=(("usr/bin", "/bin"),),
        binds=(Bind(INSIDE, CODE, Kind.READ),),
        interpreter=PYTHON,
        is_staged=False,
        masked=("kcore", "keys"),
    )
    return replace(made, **more)


def steps(made: Plan) -> list[tuple[str, ...]]:
    """The command line as a list of options, each with its own words."""
    words = arguments(made, "/x/bwrap")
    assert words[0] == "/x/bwrap"
    found, at = [], 1
    while words[at] != "--":
        size = 1 + ARITY.get(words[at], 0)
        found.append(tuple(words[at : at + size]))
        at += size
    return found


def program(made: Plan) -> list[str]:
    words = arguments(made, "/x/bwrap")
    return words[words.index("--") + 1 :]


# ---- isolation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["user", "ipc", "pid", "net", "uts"])
def test_every_namespace_is_the_sandboxs_own(kind: str) -> None:
    assert (f"--unshare-{kind}",) in steps(plan())


@pytest.mark.parametrize(
    "step",
    [("--cap-drop", "ALL"), ("--clearenv",), ("--die-with-parent",), ("--as-pid-1",),
     ("--uid", str(USER_ID)), ("--gid", str(USER_ID)), ("--hostname", "box1"), ("--chdir", "/")],
)  # fmt: skip
def test_sandbox_has_no_privilege_no_environment_and_a_name_of_its_own(step: Any) -> None:
    assert step in steps(plan())


def test_guest_is_started_on_its_two_descriptors() -> None:
    words = program(plan())
    assert tuple(words[: len(PYTHON)]) == PYTHON
    assert len(words) == len(PYTHON) + 1
    assert f"'{INSIDE}/guest/bundle'" in words[-1]
    assert f".serve({CHANNEL_FD}, {BOOT_FD})" in words[-1]


def test_nothing_of_the_host_is_writable_but_the_own_layer() -> None:
    writable = {step[1] for step in steps(plan()) if step[0] == "--bind"}
    assert writable == {"/layers/box1/home", "/layers/box1/tmp"}


# ---- order ---------------------------------------------------------------------------------------


def position(made: Plan, *step: str) -> int:
    return steps(made).index(step)


def test_root_comes_first_and_mounts_come_last() -> None:
    made = plan(binds=(Bind("/tmp/in", DATA, Kind.READ),))
    order = [
        position(made, "--ro-bind", "/usr", "/usr"),
        position(made, "--symlink", "usr/bin", "/bin"),
        position(made, "--proc", "/proc"),
        position(made, "--bind", "/layers/box1/tmp", "/tmp"),
        position(made, "--ro-bind", "/dev/null", "/proc/kcore"),
        position(made, "--ro-bind", "/srv/data", "/tmp/in"),
        position(made, "--remount-ro", "/"),
    ]
    assert order == sorted(order)


def test_mounts_keep_their_order_so_that_one_can_lie_in_another() -> None:
    outer, inner = Bind("/w", DATA, Kind.READ), Bind("/w/code", CODE, Kind.READ)
    made = plan(binds=(outer, inner))
    assert position(made, "--ro-bind", "/srv/data", "/w") < position(
        made, "--ro-bind", "/cache/inside", "/w/code"
    )


def test_own_home_and_tmp_are_bound_from_the_layer() -> None:
    made = plan()
    assert ("--bind", "/layers/box1/home", HOME) in steps(made)
    assert ("--bind", "/layers/box1/tmp", "/tmp") in steps(made)


def test_root_directory_is_closed_at_the_very_end() -> None:
    assert steps(plan())[-2] == ("--remount-ro", "/")


def test_root_of_a_template_stays_open_because_its_writes_go_to_the_layer() -> None:
    whole = Bind("/", Source("/srv/rootfs"), Kind.OVERLAY, upper="overlays/root")
    made = plan(root=(whole,), links=(), is_own_root=True)
    assert ("--remount-ro", "/") not in steps(made)


def test_dev_is_closed_after_its_shared_memory_was_put_in() -> None:
    made = plan()
    assert position(made, "--dev", "/dev") < position(made, "--tmpfs", "/dev/shm")
    assert position(made, "--tmpfs", "/dev/shm") < position(made, "--remount-ro", "/dev")


def test_every_tmpfs_has_a_size() -> None:
    found = steps(plan())
    for at, step in enumerate(found):
        if step[0] == "--tmpfs":
            before = [s[0] for s in found[max(0, at - 2) : at]]
            assert "--size" in before, f"{step} would be memory without a limit"


# ---- masks ---------------------------------------------------------------------------------------


def test_masked_files_of_proc_are_covered_after_proc_is_there() -> None:
    made = plan()
    for name in ("kcore", "keys"):
        assert position(made, "--ro-bind", "/dev/null", f"/proc/{name}") > position(
            made, "--proc", "/proc"
        )


def test_what_this_kernel_lets_everybody_read_is_what_is_masked() -> None:
    for name in masked_names():
        assert os.stat(f"/proc/{name}").st_mode & 0o004
    for name in ("keys", "timer_list", "kallsyms", "modules", "sched_debug"):
        if os.path.exists(f"/proc/{name}") and os.stat(f"/proc/{name}").st_mode & 0o004:
            assert name in masked_names()


def test_directories_of_proc_that_tell_of_the_host_are_covered_and_closed() -> None:
    found = steps(plan())
    for name in ("acpi", "scsi", "fs", "driver"):
        if os.path.isdir(f"/proc/{name}") and os.listdir(f"/proc/{name}"):
            covered = found.index(("--tmpfs", f"/proc/{name}"))
            assert covered < found.index(("--remount-ro", f"/proc/{name}"))


# ---- mounts, staged and not ----------------------------------------------------------------------


def test_each_kind_of_mount_has_its_words() -> None:
    made = plan(
        binds=(
            Bind("/r", DATA, Kind.READ),
            Bind("/w", DATA, Kind.WRITE),
            Bind("/o", DATA, Kind.OVERLAY, upper="overlays/0"),
        )
    )
    found = steps(made)
    assert ("--ro-bind", "/srv/data", "/r") in found
    assert ("--bind", "/srv/data", "/w") in found
    at = found.index(("--overlay-src", "/srv/data"))
    upper, work = "/layers/box1/overlays/0/upper", "/layers/box1/overlays/0/work"
    assert found[at + 1] == ("--overlay", upper, work, "/o")


def test_part_of_a_source_is_bound_by_its_path_within() -> None:
    made = plan(binds=(Bind("/data", Source("/layers/vol"), Kind.WRITE, below="data"),))
    assert ("--bind", "/layers/vol/data", "/data") in steps(made)


def test_staged_plan_names_no_path_of_the_host_but_the_stage() -> None:
    volume = Source(layer="volume-v", owner=(7, 7), is_readonly=False)
    made = plan(
        is_staged=True,
        binds=(
            Bind(INSIDE, CODE, Kind.READ),
            Bind("/o", DATA, Kind.OVERLAY, upper="overlays/0"),
            Bind("/v", volume, Kind.WRITE, below="data"),
        ),
    )
    numbers = {source: str(n) for n, source in enumerate(stages(made))}
    found = steps(made)
    assert ("--ro-bind", f"{STAGE}/{numbers[USR]}", "/usr") in found
    assert ("--bind", f"{STAGE}/{numbers[LAYER]}/home", HOME) in found
    assert ("--overlay-src", f"{STAGE}/{numbers[DATA]}") in found
    assert ("--bind", f"{STAGE}/{numbers[volume]}/data", "/v") in found
    for step in found:
        if step[0] in ("--bind", "--ro-bind", "--overlay-src", "--overlay"):
            sources = step[1:-1]
            assert all(s.startswith(f"{STAGE}/") or s == "/dev/null" for s in sources), step


def test_path_of_a_user_is_bound_by_the_descriptor_that_was_checked() -> None:
    own = Source("/home/me/data", identity=(1, 2))
    made = plan(
        binds=(
            Bind("/r", own, Kind.READ),
            Bind("/w", own, Kind.WRITE),
            Bind("/o", own, Kind.OVERLAY, upper="overlays/0"),
        )
    )
    number = str(SOURCE_FD + stages(made).index(own))
    found = steps(made)
    assert ("--ro-bind-fd", number, "/r") in found
    assert ("--bind-fd", number, "/w") in found
    assert ("--overlay-src", f"/proc/self/fd/{number}") in found
    assert not any("/home/me" in word for step in found for word in step)
    staged = steps(replace(made, is_staged=True))
    assert not any(step[0].endswith("-fd") for step in staged)


def test_plan_that_is_not_staged_names_no_stage() -> None:
    assert not any(STAGE in word for word in arguments(plan(), "/x/bwrap"))


def test_layer_is_staged_first_and_each_source_once() -> None:
    made = plan(binds=(Bind("/a", DATA, Kind.READ), Bind("/b", DATA, Kind.READ)))
    assert stages(made) == [LAYER, USR, DATA]


def test_same_path_with_other_rights_is_another_stage() -> None:
    writable = replace(DATA, is_readonly=False)
    made = plan(binds=(Bind("/a", DATA, Kind.READ), Bind("/b", writable, Kind.WRITE)))
    assert stages(made) == [LAYER, USR, DATA, writable]


@pytest.mark.parametrize("name", ["--bind", "a b", "$(reboot)", "ü", "x\ny"])
def test_odd_name_stays_one_word(name: str) -> None:
    made = plan(binds=(Bind(f"/in/{name}", Source(f"/srv/{name}"), Kind.READ),))
    assert ("--ro-bind", f"/srv/{name}", f"/in/{name}") in steps(made)
