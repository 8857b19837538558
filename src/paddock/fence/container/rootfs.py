"""From a spec to a plan: which trees of the host become which places of the sandbox."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from paddock.fence import syscalls
from paddock.fence.container import inside
from paddock.fence.container.plan import INSIDE, Bind, BindKind, MountSource, Plan
from paddock.fence.driver import Allocation
from paddock.fence.guest import agreed
from paddock.fence.mount_sources import open_source
from paddock.fence.uids import LAYER_OWNER
from paddock.model.errors import CannotEnforce, InvalidInput, NotFound
from paddock.model.spec import HOME, Mount, MountMode, Spec
from paddock.state.home import Home
from paddock.state.layers.layers import Layers, volume_layer
from paddock.state.privilege import is_privileged

if TYPE_CHECKING:
    from paddock.state.templates.store import StoredTemplate

_MAX_IMAGE_TEXT = 1 << 20
_OWN_PLACES = (HOME, "/tmp", "/proc", "/dev", "/run", INSIDE)
_TOP_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


def plan(home: Home, spec: Spec, allocation: Allocation, layers: Layers) -> Plan:
    """Return the plan for a spec. Raises InvalidInput for a source that is not there or not
    ours."""
    is_staged = is_privileged()
    layer_path = layers.path(allocation.layer)
    layer = MountSource(
        layer=allocation.layer, owner=_owner(is_staged, LAYER_OWNER), is_readonly=False
    )
    is_host_root = spec.template == "host"
    code = inside.kernel_code(home, inside.interpreter_path())
    brought = [Bind(INSIDE, MountSource(str(code)), BindKind.READ)]
    if not is_host_root or inside.system_interpreter() is None:
        python = inside.brought_interpreter(home)
        brought.append(Bind(f"{INSIDE}/python", MountSource(str(python)), BindKind.READ))
    brought.append(Bind(f"{INSIDE}/site", MountSource(str(home.sites)), BindKind.READ))
    root, links = _host_root(home) if is_host_root else _template_root(home, spec, layer_path)
    mounts: list[Bind] = []
    for number, mount in enumerate(spec.mounts):
        bind = _mount(
            mount, number, layers, layer_path, is_staged=is_staged, is_host_root=is_host_root
        )
        mounts += [bind, *_fixed(mount, bind.source)]
    return Plan(
        layer=layer,
        layer_path=str(layer_path),
        root=tuple(root),
        links=tuple(links),
        binds=tuple(brought + mounts),
        is_staged=is_staged,
        is_own_root=not is_host_root,
    )


def template_env(home: Home, spec: Spec) -> dict[str, str]:
    """Return the variables that the image says its programs need; a plain root says nothing."""
    if spec.template == "host" or spec.template.startswith("dir:"):
        return {}
    return dict(_template(home, spec.template).env)


def _host_root(home: Home) -> tuple[list[Bind], list[tuple[str, str]]]:
    binds = [
        Bind("/usr", MountSource("/usr", is_recursive=False), BindKind.READ),
        Bind("/etc", MountSource(str(inside.synthetic_etc(home))), BindKind.READ),
    ]
    links = [("/run", "/var/run"), ("/tmp", "/var/tmp")]
    for name in _TOP_LINKS:
        path = f"/{name}"
        if os.path.islink(path):
            links.append((os.readlink(path), path))
        elif os.path.isdir(path):
            binds.append(Bind(path, MountSource(path), BindKind.READ))
    return binds, links


def _template_root(
    home: Home, spec: Spec, layer_path: Path
) -> tuple[list[Bind], list[tuple[str, str]]]:
    if spec.template.startswith("dir:"):
        rootfs = os.path.realpath(spec.template[4:])
    else:
        rootfs = str(_template(home, spec.template).rootfs)
    if not os.path.isdir(os.path.join(rootfs, "usr")) and not os.path.isdir(f"{rootfs}/bin"):
        raise InvalidInput(f"template: {spec.template} is no root file system (no usr, no bin)")
    overlay_directories(layer_path, "overlays/root")
    upper = layer_path / "overlays/root/upper"
    _write_accounts(Path(rootfs), upper)
    for own in _OWN_PLACES:
        _make_mount_point(layer_path, own, is_directory=True, is_host_root=False)
    return [Bind("/", MountSource(rootfs), BindKind.OVERLAY, upper="overlays/root")], []


def _template(home: Home, name: str) -> StoredTemplate:
    from paddock.state.templates.store import TemplateStore  # most sandboxes need none of it

    return TemplateStore(home.templates).get(name)


def overlay_directories(layer: Path, name: str) -> None:
    """Make an overlay's own upper layer and the kernel's work directory beside it."""
    for part in ("upper", "work"):
        path = layer / name / part
        if not path.exists():
            path.mkdir(parents=True, mode=0o755)
            for made in (path, path.parent):
                _give(made)


def _write_accounts(rootfs: Path, upper: Path) -> None:
    """Write a name for the agent's uid and the links that the guest fills, in the own layer."""
    etc = upper / "etc"
    if etc.exists():
        return  # a fork or a restored snapshot has them already
    etc.mkdir(mode=0o755)
    for name in ("passwd", "group"):
        own = inside._ETC_FILES[name]
        present = _image_text(rootfs, f"/etc/{name}")
        line = next(ln for ln in own.splitlines() if ln.startswith("user:"))
        (etc / name).write_text((present.rstrip("\n") + "\n" if present else "") + line + "\n")
    for name in ("hosts", "hostname"):
        (etc / name).symlink_to(f"/run/{name}")
    (etc / "resolv.conf").symlink_to(agreed.RESOLVER)
    for path in (etc, *etc.iterdir()):
        _give(path)


def _image_text(rootfs: Path, path: str) -> str:
    """Read a small file of an image. Its links lead within the image, wherever they point."""
    root = os.open(rootfs, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        fd = syscalls.open_in_root(root, path.encode(), flags)
    except OSError:
        return ""
    finally:
        os.close(root)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return file.read(_MAX_IMAGE_TEXT).decode("utf-8", "replace")


def _make_mount_point(layer: Path, target: str, *, is_directory: bool, is_host_root: bool) -> None:
    """Make a mount point where the agent's own layer holds it. bubblewrap would follow a link
    there. So every part is opened without following; a link that an agent planted before a fork
    refuses the sandbox."""
    path_in_layer = _place_in_layer(target, is_host_root=is_host_root)
    if path_in_layer is None:
        return  # on bubblewrap's own fresh root, which nobody else has written
    *parents, name = path_in_layer.strip("/").split("/")
    fd = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parents:
            fd = _step_into(fd, part, target)
        if is_directory:
            fd = _step_into(fd, name, target)
        else:
            flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o644, dir_fd=fd))
    except OSError as error:
        raise InvalidInput(
            f"mounts.target: {target!r} cannot be mounted on: {error.strerror}",
            hint="a part of it is a link or a file in the sandbox's own files",
        ) from None
    finally:
        os.close(fd)


def _step_into(fd: int, name: str, target: str) -> int:
    """Return the directory `name` below `fd`, made if missing; `fd` is closed only when that
    worked."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=fd)
        if is_privileged():
            os.chown(name, *LAYER_OWNER, dir_fd=fd, follow_symlinks=False)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    inner = os.open(name, flags, dir_fd=fd)
    os.close(fd)
    return inner


def _place_in_layer(target: str, *, is_host_root: bool) -> str | None:
    if not is_host_root:
        return f"overlays/root/upper{target}"
    for directory, part in ((HOME, "home"), ("/tmp", "tmp")):
        if target == directory or target.startswith(directory + "/"):
            return part + target[len(directory) :]
    return None


def _give(path: Path) -> None:
    if is_privileged():
        os.chown(path, *LAYER_OWNER, follow_symlinks=False)


def _mount(
    mount: Mount, number: int, layers: Layers, layer: Path, *, is_staged: bool, is_host_root: bool
) -> Bind:
    if mount.volume is not None:
        _make_mount_point(layer, mount.target, is_directory=True, is_host_root=is_host_root)
        name = volume_layer(mount.volume)
        if not layers.path(name).is_dir():
            raise NotFound(
                f"no volume {mount.volume!r}",
                hint=f"paddock volume create {mount.volume} --quota 1GiB",
            )
        source = MountSource(
            path="" if is_staged else str(layers.path(name)),
            layer=name,
            owner=_owner(is_staged, LAYER_OWNER),
            is_readonly=mount.mode is MountMode.READ,
        )
        kind = BindKind.READ if mount.mode is MountMode.READ else BindKind.WRITE
        return Bind(mount.target, source, kind, below="data")
    assert mount.source is not None and mount.identity is not None
    path = mount.source
    fd = open_source(path, mount.identity)
    try:
        info = os.fstat(fd)
        hiding = _hiding(mount, number, layer, fd)
    finally:
        os.close(fd)
    # The agent stands for the owner of what is mounted: no more than the caller, who may read it.
    owner = _owner(is_staged, (info.st_uid, info.st_gid))
    is_readonly = mount.mode is not MountMode.WRITE
    source = MountSource(path, owner=owner, is_readonly=is_readonly, identity=mount.identity)
    is_directory = stat.S_ISDIR(info.st_mode)
    _make_mount_point(layer, mount.target, is_directory=is_directory, is_host_root=is_host_root)
    if mount.mode is not MountMode.OVERLAY:
        return Bind(mount.target, source, BindKind(mount.mode.value), hiding=hiding)
    if not is_directory:
        raise InvalidInput(f"mounts.source: {path} is a file; an overlay needs a directory")
    overlay_directories(layer, f"overlays/{number}")
    upper = f"overlays/{number}"
    return Bind(mount.target, source, BindKind.OVERLAY, upper=upper, hiding=hiding)


def _fixed(mount: Mount, source: MountSource) -> Iterator[Bind]:
    """Yield the files of a `write` mount that stay read-only, each mounted over itself, and
    before them the directories on the way, so that none of them can be moved aside."""
    assert mount.source is not None or not mount.fixed_paths
    for path in mount.fixed_paths:
        fixed_path = f"{mount.source}/{path}"
        try:
            fd = syscalls.open_without_links(fixed_path)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise CannotEnforce(
                f"read-only {fixed_path} in the write mount at {mount.target}",
                hint=f"it cannot be opened without following a link: {why}",
            ) from None
        info = os.fstat(fd)
        os.close(fd)
        is_file = path in mount.read_only
        kind = BindKind.READ if is_file else BindKind.WRITE
        identity = (info.st_dev, info.st_ino)
        own = replace(source, path=fixed_path, is_readonly=is_file, identity=identity)
        yield Bind(f"{mount.target}/{path}", own, kind)


def _hiding(mount: Mount, number: int, layer: Path, source: int) -> str:
    """Make the layer that takes the hidden names of a mount away; nothing where nothing is
    hidden."""
    if not mount.hidden:
        return ""
    if not stat.S_ISDIR(os.fstat(source).st_mode):
        raise InvalidInput(f"mounts.hidden: {mount.source} is a file and has nothing in it to hide")
    from paddock.state.layers.hidden_files import make_hiding

    name = f"overlays/{number}/hiding"
    make_hiding(layer / name, source, mount.hidden, LAYER_OWNER if is_privileged() else None)
    return name


def _owner(is_staged: bool, owner: tuple[int, int]) -> tuple[int, int] | None:
    return owner if is_staged else None
