"""What a sandbox may be asked to be: good spellings are taken, bad ones named by their key."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.model.spec import (
    HOME,
    MAX_PATH_BYTES,
    RESERVED_TARGETS,
    Limits,
    Mount,
    MountMode,
    Spec,
    identifier,
    mount_target,
    parse_envs,
    sandbox_path,
    template_name,
)

LIMIT_NAMES = Limits.__struct_fields__
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)
parts = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def refused(key: str, **spec: Any) -> str:
    """What the refusal of a spec says; it must begin with the key at fault."""
    with pytest.raises(InvalidInput) as caught:
        Spec.parse(**spec)
    assert str(caught.value).startswith(f"{key}:"), str(caught.value)
    return str(caught.value)


# ---- limits --------------------------------------------------------------------------------------


def test_nothing_asked_for_gives_the_defaults() -> None:
    assert Spec.parse() == Spec()
    assert Spec.parse(limits={}).limits == Limits()


def test_limits_are_read_with_their_units() -> None:
    raw = {"cpu": 2, "memory": "1GiB", "pids": 64, "disk": "10MB", "files": 100, "output": "64KiB",
           "time": "10m"}  # fmt: skip
    assert Limits.parse(raw) == Limits(2.0, 1 << 30, 64, 10**7, 100, 64 << 10, 600.0)
    assert set(raw) == set(LIMIT_NAMES)


@for_each("name", LIMIT_NAMES)
@for_each("value", [0, -1, "", "plenty", None, True, [], float("nan"), "-5"])
def test_senseless_limit_is_refused_by_its_name(name: str, value: Any) -> None:
    refused(f"limits.{name}", limits={name: value})


@pytest.mark.parametrize("name", ["cpu", "memory", "pids", "disk", "files", "output"])
def test_limit_below_what_the_guest_needs_is_refused_by_its_name(name: str) -> None:
    least: Any = 0.001 if name == "cpu" else 1
    assert "at least" in refused(f"limits.{name}", limits={name: least})


@pytest.mark.parametrize("key", ["mem", "Memory", "", 7])
def test_unknown_limit_is_refused_and_the_known_ones_are_listed(key: Any) -> None:
    said = refused("limits", limits={key: 1})
    assert repr(key) in said
    assert all(name in said for name in LIMIT_NAMES)


@pytest.mark.parametrize("limits", ["1GiB", 5, ["cpu"], b"cpu"])
def test_limits_that_are_no_mapping_are_refused(limits: Any) -> None:
    refused("limits", limits=limits)


@pytest.mark.parametrize("name", ["pids", "files"])
def test_counts_are_whole_numbers(name: str) -> None:
    assert "whole number" in refused(f"limits.{name}", limits={name: 64.5})


@given(st.dictionaries(st.sampled_from(LIMIT_NAMES), anything))
@example({"memory": 10**400})
@example({"disk": "9" * 300 + "TiB"})
def test_any_limits_are_parsed_or_refused_by_name(raw: dict[str, Any]) -> None:
    try:
        limits = Limits.parse(raw)
    except InvalidInput as error:
        assert str(error).startswith("limits.")
        return
    assert all(getattr(limits, name) > 0 for name in raw)


# ---- mounts --------------------------------------------------------------------------------------


def test_mount_of_a_path_is_read_only_unless_said_otherwise() -> None:
    assert Mount.parse({"source": "data", "target": "/in"}).mode is MountMode.READ


def test_mount_of_a_volume_is_writable_unless_said_otherwise() -> None:
    mount = Mount.parse({"volume": "v1", "target": "/data"})
    assert (mount.mode, mount.volume, mount.source) == (MountMode.WRITE, "v1", None)


@pytest.mark.parametrize("mode", list(MountMode))
def test_each_mode_is_known_by_its_word(mode: MountMode) -> None:
    raw = {"source": ".", "target": "/w", "mode": mode.value}
    assert Mount.parse(raw).mode is mode


def test_path_object_is_taken_as_a_source() -> None:
    assert Mount.parse({"source": pathlib.Path("/a/b"), "target": "/w"}).source == "/a/b"


@for_each(
    ("mount", "key"),
    [
        ({"source": "x", "target": "/w", "mode": "rw"}, "mounts.mode"),
        ({"source": "x", "target": "/w", "mode": None}, "mounts.mode"),
        ({"source": "x", "target": "/w", "mode": []}, "mounts.mode"),
        ({"source": "x", "target": "w"}, "mounts.target"),
        ({"source": "x", "target": "/a/../etc"}, "mounts.target"),
        ({"source": "x", "target": 7}, "mounts.target"),
        ({"source": "x", "target": "/a\0b"}, "mounts.target"),
        ({"source": "", "target": "/w"}, "mounts.source"),
        ({"source": 7, "target": "/w"}, "mounts.source"),
        ({"source": "a\0b", "target": "/w"}, "mounts.source"),
        ({"volume": "../up", "target": "/w"}, "volume"),
        ({"volume": "v", "target": "/w", "mode": "overlay"}, "mounts"),
        ({"source": "x"}, "mounts"),
        ({"target": "/w"}, "mounts"),
        ({"source": "x", "volume": "v", "target": "/w"}, "mounts"),
        ({"source": "x", "target": "/w", "readonly": True}, "mounts"),
        ("data:/w", "mounts"),
        (None, "mounts"),
    ],
)
def test_bad_mount_is_refused_by_its_key(mount: Any, key: str) -> None:
    refused(key, mounts=[mount])


@pytest.mark.parametrize("mounts", [7, {"source": "x", "target": "/w"}, "x:/w"])
def test_mounts_that_are_no_list_are_refused(mounts: Any) -> None:
    refused("mounts", mounts=mounts)


@for_each("reserved", RESERVED_TARGETS)
@for_each("spelling", ["{0}", "{0}/", "/.{0}", "//{0}//.", "{0}/below"])
def test_system_path_cannot_be_covered_however_it_is_spelt(reserved: str, spelling: str) -> None:
    target = spelling.format(reserved)
    if reserved in ("/", "/root") and spelling == "{0}/below":
        # These two have children that are nobody's: projects of a host that works as root.
        assert mount_target(target) == reserved.rstrip("/") + "/below"
        return
    with pytest.raises(InvalidInput, match=r"^mounts\.target: .*system path"):
        mount_target(target)


@pytest.mark.parametrize("target", ["/workspace", "/usrlocal", "/home/user", "/tmp/x", "/data/usr"])
def test_lookalike_of_a_system_path_is_no_system_path(target: str) -> None:
    assert mount_target(target) == target


def test_two_mounts_at_one_place_are_refused_however_they_are_spelt() -> None:
    first, second = {"source": "a", "target": "/w"}, {"source": "b", "target": "//w/./"}
    assert "twice" in refused("mounts.target", mounts=[first, second])


@pytest.mark.parametrize("inner", ["/w/x", "/w/x/y"])
def test_mount_inside_another_mount_is_refused_in_either_order(inner: str) -> None:
    mounts = [{"source": "a", "target": "/w"}, {"source": "b", "target": inner}]
    for order in (mounts, mounts[::-1]):
        assert "inside the mount" in refused("mounts.target", mounts=order)
    beside = [{"source": "a", "target": "/w"}, {"source": "b", "target": "/wx"}]
    assert len(Spec.parse(mounts=beside).mounts) == 2


@given(parts)
def test_target_is_canonical_so_that_parsing_it_again_changes_nothing(words: list[str]) -> None:
    try:
        once = mount_target("/" + "/".join(words))
    except InvalidInput:
        return
    assert mount_target(once) == once
    assert "//" not in once
    assert not {".", ".."} & set(once.split("/"))


# ---- paths, names, environment -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "place"),
    [("notes.txt", f"{HOME}/notes.txt"), ("/a//b/./c/", "/a/b/c"), (".", HOME), ("/", "/"),
     ("a/../b", f"{HOME}/a/../b"), (pathlib.PurePosixPath("/x"), "/x"), (" ", f"{HOME}/ ")],
)  # fmt: skip
def test_path_is_absolute_and_keeps_what_only_the_kernel_can_resolve(path: Any, place: str) -> None:
    assert sandbox_path(path) == place


def test_relative_path_starts_at_the_given_directory() -> None:
    assert sandbox_path("x", "/srv") == "/srv/x"


@given(st.text() | st.binary().map(lambda b: b.decode("utf-8", "surrogateescape")))
@example("\ud800")
@example("x" * MAX_PATH_BYTES + "y")
def test_any_text_is_a_canonical_path_or_is_refused_by_name(text: str) -> None:
    try:
        place = sandbox_path(text)
    except InvalidInput as error:
        assert str(error).startswith("path: ")
        return
    assert sandbox_path(place) == place
    assert place.startswith("/")
    place.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("path", ["", None, 7, b"/x", "a\0b", "x" * (MAX_PATH_BYTES + 1)])
def test_impossible_path_is_refused(path: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^path: "):
        sandbox_path(path)


@given(names)
def test_name_is_taken_as_it_is(name: str) -> None:
    assert identifier(name, "volume") == name


@for_each("name", ["", ".", "..", "-x", "a/b", "a b", "a\n", "é", "x" * 129, None])
@for_each("what", ["volume", "snapshot"])
def test_name_that_could_leave_its_directory_is_refused(name: Any, what: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{what}: "):
        identifier(name, what)


def test_template_is_the_host_a_directory_or_a_name() -> None:
    for name in ("host", "dir:/srv/rootfs", "debian-12"):
        assert template_name(name) == name


@pytest.mark.parametrize("name", ["dir:", "dir:rootfs", "../x", "a:b", "", None, 3])
def test_bad_template_is_refused_by_its_key(name: Any) -> None:
    refused("template", template=name)


def test_environment_keeps_its_order_and_its_odd_values() -> None:
    pairs = {"B": "2", "A": "", "_x9": "a=b\nc"}
    assert parse_envs(pairs) == tuple(pairs.items())


@for_each(
    ("envs", "key"),
    [({"1A": "x"}, "envs"), ({"A-B": "x"}, "envs"), ({"": "x"}, "envs"), ({"A=": "x"}, "envs"),
     ({"A": 1}, "envs.A"), ({"A": None}, "envs.A"), ({"A": "a\0b"}, "envs.A"), ({1: "x"}, "envs"),
     ("A=1", "envs"), (["A"], "envs")],
)  # fmt: skip
def test_bad_environment_is_refused_by_its_key(envs: Any, key: str) -> None:
    refused(key, envs=envs)


def test_text_that_has_no_bytes_is_refused_before_it_reaches_the_guest() -> None:
    refused("envs.A", envs={"A": "\ud800"})


@pytest.mark.parametrize("timeout", [0, -1, "soon", None, True, float("inf")])
def test_bad_timeout_is_refused_by_its_key(timeout: Any) -> None:
    refused("timeout", timeout=timeout)


@pytest.mark.parametrize("snapshot", ["../x", "", 7])
def test_bad_snapshot_is_refused_by_its_key(snapshot: Any) -> None:
    refused("snapshot", snapshot=snapshot)


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}, "a=b"])
def test_bad_metadata_is_refused_by_its_key(metadata: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^metadata"):
        Spec.parse(metadata=metadata)


@pytest.mark.parametrize(
    "asked",
    [{"mounts": [{"source": ".", "target": "/w"}]}, {"snapshot": "snap-1"}, {"template": "alpine"}],
)
def test_only_a_spec_without_a_file_system_of_its_own_can_come_from_the_pool(asked: Any) -> None:
    assert not Spec.parse(**asked).is_poolable
    assert Spec.parse(envs={"A": "1"}, limits={"cpu": 1}).is_poolable
