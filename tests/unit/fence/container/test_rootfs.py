"""From a spec to a plan: which sources are taken, which are refused, and what is made for them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.fence.container import inside, rootfs
from paddock.fence.container.plan import INSIDE, Bind, BindKind, Plan, stages
from paddock.fence.driver import Allocation
from paddock.fence.mount_sources import open_source, resolved
from paddock.fence.uids import LAYER_OWNER
from paddock.model.errors import Conflict, InvalidInput, NotFound
from paddock.model.spec import Spec
from paddock.state.home import Home
from paddock.state.layers.layers import PlainLayers, volume_layer
from paddock.state.privilege import is_privileged


class World:
    """A home with one layer, ready to plan for."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.home = Home(root)
        cache.mkdir(exist_ok=True)
        root.mkdir()
        (root / "cache").symlink_to(cache)
        self.home.make()
        self.layers = PlainLayers(self.home.layers)
        self.layer = self.layers.create("box1", 1 << 30, LAYER_OWNER)

    def plan(self, **spec: Any) -> Plan:
        place = Allocation("box1", "box1", "box1", LAYER_OWNER)
        asked = resolved(self.home, Spec.parse(**spec))
        return rootfs.plan(self.home, asked, place, self.layers)

    def bind(self, **mount: Any) -> Bind:
        return self.plan(mounts=[{"target": "/w", **mount}]).binds[-1]

    def refusal(self, **mount: Any) -> str:
        with pytest.raises(InvalidInput) as caught:
            self.bind(**mount)
        return str(caught.value)


@pytest.fixture
def world(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path / "home", tmp_path_factory.getbasetemp() / "rootfs-cache")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.mkdir()
    return path


# ---- sources -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["read", "write", "overlay"])
def test_missing_source_is_refused_and_the_place_it_was_looked_for_is_named(
    world: World, tmp_path: Path, mode: str
) -> None:
    said = world.refusal(source=str(tmp_path / "no"), mode=mode)
    assert said.startswith("mounts.source: ")
    assert "No such file" in said
    assert str(tmp_path / "no") in said


@for_each(
    "path", ["/", "//", "/..", "/usr/..", "/proc", "/proc/self/root", "/sys/kernel", "/dev/shm"]
)
@for_each("mode", ["read", "write", "overlay"])
def test_root_and_kernel_of_the_host_are_refused_however_they_are_spelt(
    world: World, path: str, mode: str
) -> None:
    assert "part of the system" in world.refusal(source=path, mode=mode)


def test_link_to_the_root_of_the_host_is_refused(world: World, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    assert "part of the system" in world.refusal(source=str(tmp_path / "link"))


@pytest.mark.parametrize("place", ["", "layers", "sandboxes", ".."])
def test_own_state_of_paddock_is_refused(world: World, place: str) -> None:
    assert "own state" in world.refusal(source=str(world.home.root / place), mode="read")


def test_source_that_was_exchanged_since_it_was_resolved_is_refused(
    source: Path, tmp_path: Path
) -> None:
    info = source.stat()
    identity = (info.st_dev, info.st_ino)
    os.close(open_source(str(source), identity))
    source.rename(tmp_path / "moved")
    for put in (lambda: source.mkdir(), lambda: source.symlink_to(tmp_path / "moved")):
        put()
        with pytest.raises(Conflict, match=r"^mounts\.source: "):
            open_source(str(source), identity)
        source.rmdir() if not source.is_symlink() else source.unlink()
    with pytest.raises(Conflict, match=r"^mounts\.source: "):
        open_source(str(source), identity)


def test_file_cannot_be_an_overlay_but_can_be_mounted(world: World, source: Path) -> None:
    (source / "f").write_text("x")
    assert "is a file" in world.refusal(source=str(source / "f"), mode="overlay")
    assert world.bind(source=str(source / "f"), mode="read").kind is BindKind.READ


def test_source_is_resolved_once_and_for_all(
    world: World, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(source)
    assert world.bind(source=str(tmp_path / "link")).source.path == str(source)
    monkeypatch.chdir(tmp_path)
    assert world.bind(source="./source/../link").source.path == str(source)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert world.bind(source="~/source").source.path == str(source)


def test_each_mode_has_its_kind_and_its_rights(world: World, source: Path) -> None:
    for mode, kind, is_readonly in (
        ("read", BindKind.READ, True),
        ("write", BindKind.WRITE, False),
        ("overlay", BindKind.OVERLAY, True),
    ):
        bind = world.bind(source=str(source), mode=mode)
        assert (bind.kind, bind.source.is_readonly) == (kind, is_readonly)


def test_agent_stands_for_the_owner_of_the_source_only_where_ids_are_mapped(
    world: World, source: Path
) -> None:
    info = source.stat()
    wanted = (info.st_uid, info.st_gid) if is_privileged() else None
    assert world.bind(source=str(source), mode="write").source.owner == wanted
    assert world.plan().is_staged == is_privileged()


def test_overlay_gets_directories_of_its_own_in_the_layer(world: World, source: Path) -> None:
    plan = world.plan(
        mounts=[
            {"source": str(source), "target": "/a", "mode": "overlay"},
            {"source": str(source), "target": "/b", "mode": "overlay"},
        ]
    )
    uppers = [bind.upper for bind in plan.binds if bind.kind is BindKind.OVERLAY]
    assert len(set(uppers)) == 2
    for upper in uppers:
        for part in ("upper", "work"):
            info = (world.layer / upper / part).stat()
            assert info.st_uid == (LAYER_OWNER[0] if is_privileged() else os.geteuid())


def test_source_is_not_touched_by_planning(world: World, source: Path) -> None:
    (source / "f").write_text("x")
    before = source.stat()
    world.bind(source=str(source), mode="overlay")
    assert os.listdir(source) == ["f"]
    assert source.stat().st_mtime_ns == before.st_mtime_ns


# ---- volumes -------------------------------------------------------------------------------------


def test_missing_volume_is_named_with_the_command_that_makes_it(world: World) -> None:
    with pytest.raises(NotFound, match=r"no volume 'v1'[\s\S]*volume create v1"):
        world.bind(volume="v1")


def test_volume_is_bound_by_its_data_alone(world: World) -> None:
    path = world.layers.create(volume_layer("v1"), 1 << 20, LAYER_OWNER)
    (path / "data").mkdir()
    for mode, kind in (("write", BindKind.WRITE), ("read", BindKind.READ)):
        bind = world.bind(volume="v1", mode=mode)
        assert (bind.kind, bind.below, bind.source.layer) == (kind, "data", "volume-v1")
        assert bind.source.is_readonly == (mode == "read")


# ---- roots ---------------------------------------------------------------------------------------


def test_host_root_is_usr_and_a_synthetic_etc_read_only(world: World) -> None:
    plan = world.plan()
    assert {bind.target for bind in plan.root} >= {"/usr", "/etc"}
    assert all(bind.kind is BindKind.READ for bind in plan.root)
    assert next(b for b in plan.root if b.target == "/etc").source.path != "/etc"
    assert not plan.is_own_root


def test_top_directories_are_what_they_are_on_the_host(world: World) -> None:
    plan = world.plan()
    names = {name for _, name in plan.links} | {bind.target for bind in plan.root}
    for name in ("/bin", "/sbin", "/lib", "/lib64"):
        assert (name in names) == os.path.lexists(name)


def test_what_is_brought_lies_in_one_place_and_cannot_be_written(world: World) -> None:
    brought = [bind for bind in world.plan().binds if bind.target.startswith(INSIDE)]
    assert brought
    assert all(b.kind is BindKind.READ and b.source.is_readonly for b in brought)


def test_only_the_own_layer_is_staged_writable_by_default(world: World) -> None:
    assert [s.layer for s in stages(world.plan()) if not s.is_readonly] == ["box1"]


@pytest.fixture
def template(tmp_path: Path) -> Path:
    root = tmp_path / "template"
    (root / "bin").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh")
    return root


@pytest.mark.parametrize("path", ["/no/such/root", "/dev"])
def test_directory_that_is_no_root_file_system_is_refused(world: World, path: str) -> None:
    with pytest.raises(InvalidInput, match=r"^template: "):
        world.plan(template=f"dir:{path}")


def test_unknown_template_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        world.plan(template="never-added")


def test_template_is_overlaid_and_itself_never_written(world: World, template: Path) -> None:
    plan = world.plan(template=f"dir:{template}")
    [root] = plan.root
    assert (root.target, root.kind, root.source.path) == ("/", BindKind.OVERLAY, str(template))
    assert root.source.is_readonly
    assert plan.is_own_root
    assert sorted(os.listdir(template)) == ["bin", "etc"]
    assert (template / "etc/passwd").read_text() == "root:x:0:0::/root:/bin/sh"


def test_template_gets_an_account_and_its_mount_points_in_the_own_layer(
    world: World, template: Path, source: Path
) -> None:
    mounts = [{"source": str(source), "target": "/deep/in/here"}]
    world.plan(template=f"dir:{template}", mounts=mounts)
    upper = world.layer / "overlays/root/upper"
    lines = (upper / "etc/passwd").read_text().splitlines()
    assert lines[0].startswith("root:")
    assert lines[1].startswith("user:x:1000:")
    for place in ("home/user", "tmp", "proc", "dev", "run", ".paddock", "deep/in/here"):
        assert (upper / place).is_dir()


def test_template_without_python_brings_its_own(world: World, template: Path) -> None:
    plan = world.plan(template=f"dir:{template}")
    [python] = [bind for bind in plan.binds if bind.target == f"{INSIDE}/python"]
    assert python.kind is BindKind.READ
    assert os.access(f"{python.source.path}/bin/python3", os.X_OK)


def test_host_root_brings_a_python_only_where_the_host_has_none_for_it(world: World) -> None:
    is_brought = f"{INSIDE}/python" in [bind.target for bind in world.plan().binds]
    assert is_brought == (inside.system_interpreter() is None)


@pytest.mark.parametrize("name", ["home", "run", "deep", "deep/in"])
def test_link_that_an_agent_left_in_its_layer_leads_nothing_out_of_it(
    world: World, template: Path, source: Path, tmp_path: Path, name: str
) -> None:
    """A fork or a restored snapshot: the upper layer is full of what the agent made."""
    outside = tmp_path / "outside"
    outside.mkdir()
    upper = world.layer / "overlays/root/upper"
    (upper / name).parent.mkdir(parents=True)
    (upper / name).symlink_to(outside)
    (upper / "etc").mkdir()
    mounts = [{"source": str(source), "target": "/deep/in/here"}]
    with contextlib.suppress(InvalidInput, OSError):  # refusing is fine, too
        world.plan(template=f"dir:{template}", mounts=mounts)
    assert os.listdir(outside) == []


@pytest.mark.parametrize("target", ["/home/user/a/b", "/home/user/a", "/tmp/a/b"])
def test_link_in_the_own_home_or_tmp_leads_no_mount_out_of_it(
    world: World, source: Path, tmp_path: Path, target: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for part in ("home", "tmp"):
        (world.layer / part / "a").symlink_to(outside)
    with pytest.raises(InvalidInput, match=r"^mounts\.target: "):
        world.plan(mounts=[{"source": str(source), "target": target}])
    assert os.listdir(outside) == []


def test_etc_that_an_agent_made_a_link_leads_nothing_out_of_the_layer(
    world: World, template: Path, tmp_path: Path
) -> None:
    upper = world.layer / "overlays/root/upper"
    upper.mkdir(parents=True)
    (upper / "etc").symlink_to(tmp_path / "outside")
    with contextlib.suppress(InvalidInput, OSError):
        world.plan(template=f"dir:{template}")
    assert not (tmp_path / "outside").exists()


def test_link_in_a_template_shows_the_agent_no_file_of_the_host(
    world: World, template: Path, tmp_path: Path
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "passwd").write_text("secret of the host\n")
    (template / "etc/passwd").unlink()
    (template / "etc").rmdir()
    (template / "etc").symlink_to(private)
    world.plan(template=f"dir:{template}")
    written = (world.layer / "overlays/root/upper/etc/passwd").read_text()
    assert "secret" not in written


def test_expanded_home_of_nobody_is_refused_like_any_missing_place(world: World) -> None:
    assert world.refusal(source="~no-such-user-here/x").startswith("mounts.source: ")
