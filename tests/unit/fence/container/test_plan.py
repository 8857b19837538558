"""A plan in bubblewrap's words: what is there, in which order, from where. Nothing is mounted."""

from __future__ import annotations

import os
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.fence.container.plan import (
    INSIDE,
    Bind,
    BindKind,
    MountSource,
    Plan,
    arguments,
    masked,
    stages,
)
from paddock.fence.guest.agreed import GO_FD, INFO_FD, PIDNS_FD, PROGRAM_FD, SOURCE_FD, STAGE
from paddock.model.spec import HOME

LAYER = MountSource(layer="box1", owner=(7, 7), is_readonly=False)
USR = MountSource("/usr")
CODE = MountSource("/cache/inside")
DATA = MountSource("/srv/data", owner=(1, 1))

# How many words follow each of bubblewrap's that we use.
ARITY = {
    "--pidns": 1, "--info-fd": 1, "--block-fd": 1, "--cap-drop": 1, "--ro-bind": 2, "--bind": 2,
    "--symlink": 2, "--proc": 1, "--dev": 1, "--tmpfs": 1, "--size": 1, "--perms": 1,
    "--ro-bind-fd": 2, "--bind-fd": 2, "--remount-ro": 1, "--overlay-src": 1, "--overlay": 3,
    "--chdir": 1,
}  # fmt: skip


def plan(**more: Any) -> Plan:
    made = Plan(
        layer=LAYER,
        layer_path="/layers/box1",
        root=(Bind("/usr", USR, BindKind.READ),),
        links=(("usr/bin", "/bin"),),
        binds=(Bind(INSIDE, CODE, BindKind.READ),),
        is_staged=False,
    )
    return replace(made, **more)


def steps(made: Plan) -> list[tuple[str, ...]]:
    """The command line as a list of options, each with its own words."""
    words = arguments(made)
    assert words[0] == "bwrap"
    found, at = [], 1
    while words[at] != "--":
        size = 1 + ARITY.get(words[at], 0)
        found.append(tuple(words[at : at + size]))
        at += size
    return found


def program(made: Plan) -> list[str]:
    words = arguments(made)
    return words[words.index("--") + 1 :]


# ---- isolation -----------------------------------------------------------------------------------


def test_bubblewrap_makes_no_namespace_but_that_of_its_mounts() -> None:
    """The guest has made the others, and moves into this one. One more would hide it from there."""
    assert not any(word.startswith(("--unshare", "--userns")) for word in arguments(plan()))


@pytest.mark.parametrize(
    "step",
    [("--pidns", str(PIDNS_FD)), ("--info-fd", str(INFO_FD)), ("--block-fd", str(GO_FD)),
     ("--cap-drop", "ALL"), ("--clearenv",), ("--die-with-parent",), ("--chdir", "/")],
)  # fmt: skip
def test_bubblewrap_has_no_environment_keeps_no_privilege_and_waits_for_its_guest(
    step: Any,
) -> None:
    assert step in steps(plan())


def test_descriptors_of_bubblewrap_are_apart() -> None:
    own = [0, 1, 2, INFO_FD, GO_FD, PIDNS_FD, PROGRAM_FD]
    assert len(set(own)) == len(own)
    assert max(own) < SOURCE_FD


def test_nothing_is_run_when_the_file_system_is_made() -> None:
    assert program(plan()) == ["/"]
    with pytest.raises(PermissionError):
        os.execv("/", ["/"])


def test_nothing_of_the_host_is_writable_but_the_own_layer() -> None:
    writable = {step[1] for step in steps(plan()) if step[0] == "--bind"}
    assert writable == {"/layers/box1/home", "/layers/box1/tmp"}


# ---- order ---------------------------------------------------------------------------------------


def position(made: Plan, *step: str) -> int:
    return steps(made).index(step)


def test_root_comes_first_and_mounts_come_last() -> None:
    made = plan(binds=(Bind("/tmp/in", DATA, BindKind.READ),))
    order = [
        position(made, "--ro-bind", "/usr", "/usr"),
        position(made, "--symlink", "usr/bin", "/bin"),
        position(made, "--proc", "/proc"),
        position(made, "--bind", "/layers/box1/tmp", "/tmp"),
        position(made, "--ro-bind", "/srv/data", "/tmp/in"),
        position(made, "--remount-ro", "/"),
    ]
    assert order == sorted(order)


def test_mounts_keep_their_order_so_that_one_can_lie_in_another() -> None:
    outer, inner = Bind("/w", DATA, BindKind.READ), Bind("/w/code", CODE, BindKind.READ)
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
    whole = Bind("/", MountSource("/srv/rootfs"), BindKind.OVERLAY, upper="overlays/root")
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


def test_masks_are_the_guests_and_not_bubblewraps() -> None:
    """Both would be two mounts on one place, of which the second hides nothing more."""
    assert not any(word.startswith("/proc/") for word in arguments(plan()))


def test_what_this_kernel_lets_everybody_read_is_what_is_masked() -> None:
    for path in masked():
        assert os.path.isdir(path) or os.stat(path).st_mode & 0o004
    for name in ("keys", "timer_list", "kallsyms", "modules", "sched_debug"):
        path = f"/proc/{name}"
        if os.path.exists(path) and os.stat(path).st_mode & 0o004:
            assert path in masked()


@pytest.mark.parametrize("name", ["acpi", "scsi", "asound", "fs", "driver"])
def test_directories_of_proc_that_tell_of_the_host_are_masked(name: str) -> None:
    path = f"/proc/{name}"
    holds_anything = os.path.isdir(path) and bool(os.listdir(path))
    assert (path in masked()) == holds_anything


def test_every_mask_is_a_path_of_its_own_in_proc() -> None:
    assert len(set(masked())) == len(masked())
    assert all(os.path.dirname(path) == "/proc" for path in masked())


# ---- mounts, staged and not ----------------------------------------------------------------------


def test_each_kind_of_mount_has_its_words() -> None:
    made = plan(
        binds=(
            Bind("/r", DATA, BindKind.READ),
            Bind("/w", DATA, BindKind.WRITE),
            Bind("/o", DATA, BindKind.OVERLAY, upper="overlays/0"),
        )
    )
    found = steps(made)
    assert ("--ro-bind", "/srv/data", "/r") in found
    assert ("--bind", "/srv/data", "/w") in found
    at = found.index(("--overlay-src", "/srv/data"))
    upper, work = "/layers/box1/overlays/0/upper", "/layers/box1/overlays/0/work"
    assert found[at + 1] == ("--overlay", upper, work, "/o")


def test_part_of_a_source_is_bound_by_its_path_within() -> None:
    made = plan(binds=(Bind("/data", MountSource("/layers/vol"), BindKind.WRITE, below="data"),))
    assert ("--bind", "/layers/vol/data", "/data") in steps(made)


def test_staged_plan_names_no_path_of_the_host_but_the_stage() -> None:
    volume = MountSource(layer="volume-v", owner=(7, 7), is_readonly=False)
    made = plan(
        is_staged=True,
        binds=(
            Bind(INSIDE, CODE, BindKind.READ),
            Bind("/o", DATA, BindKind.OVERLAY, upper="overlays/0"),
            Bind("/v", volume, BindKind.WRITE, below="data"),
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
    own = MountSource("/home/me/data", identity=(1, 2))
    made = plan(
        binds=(
            Bind("/r", own, BindKind.READ),
            Bind("/w", own, BindKind.WRITE),
            Bind("/o", own, BindKind.OVERLAY, upper="overlays/0"),
        )
    )
    number = str(SOURCE_FD + stages(made).index(own))
    found = steps(made)
    assert ("--ro-bind-fd", number, "/r") in found
    assert ("--bind-fd", number, "/w") in found
    assert ("--overlay-src", f"/proc/self/fd/{number}") in found
    assert not any("/home/me" in word for step in found for word in step)
    staged = steps(replace(made, is_staged=True))
    assert not any(step[0].endswith("bind-fd") for step in staged)


def test_plan_that_is_not_staged_names_no_stage() -> None:
    assert not any(STAGE in word for word in arguments(plan()))


def test_layer_is_staged_first_and_each_source_once() -> None:
    made = plan(binds=(Bind("/a", DATA, BindKind.READ), Bind("/b", DATA, BindKind.READ)))
    assert stages(made) == [LAYER, USR, DATA]


def test_same_path_with_other_rights_is_another_stage() -> None:
    writable = replace(DATA, is_readonly=False)
    made = plan(binds=(Bind("/a", DATA, BindKind.READ), Bind("/b", writable, BindKind.WRITE)))
    assert stages(made) == [LAYER, USR, DATA, writable]


@pytest.mark.parametrize("name", ["--bind", "a b", "$(reboot)", "ü", "x\ny"])
def test_odd_name_stays_one_word(name: str) -> None:
    made = plan(binds=(Bind(f"/in/{name}", MountSource(f"/srv/{name}"), BindKind.READ),))
    assert ("--ro-bind", f"/srv/{name}", f"/in/{name}") in steps(made)
