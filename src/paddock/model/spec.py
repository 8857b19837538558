"""The specification of a sandbox: limits, mounts, environment. Parsed once, strictly, from plain
dicts; everything behind this file trusts it. No I/O: whether a source exists is the fence's to say.
"""

from __future__ import annotations

import enum
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack

import msgspec

from paddock.model.errors import InvalidInput
from paddock.model.sizes import format_size, parse_duration, parse_size

HOME = "/home/user"
MAX_MOUNTS = 100  # each is a descriptor on its way, and a message holds 253
MAX_HIDDEN = 10_000  # of one mount; a whiteout each
MAX_HIDDEN_DEPTH = 128  # two descriptors are open for each part of a path
MAX_COUNT = 1 << 22  # the kernel's own ceiling for pids
MAX_PATH_BYTES = 4095  # PATH_MAX less its NUL: longer never reaches the kernel anyway.
RESERVED_TARGETS = ("/", "/proc", "/sys", "/dev", "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64",
                    "/lib32", "/libx32", "/run", "/.paddock", "/boot", "/root")  # fmt: skip
# Only a name in the root: projects and interpreters of a host that works as root lie below it.
_OPEN_BELOW = ("/", "/root")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


# Below these the guest itself cannot start, and the failure would look like ours.
_FLOORS = {"cpu": 0.01, "memory": 32 << 20, "pids": 4, "disk": 1 << 20, "files": 32, "output": 1024}


class MountMode(enum.Enum):
    """The ways to treat writes to a mount."""

    READ = "read"
    WRITE = "write"
    OVERLAY = "overlay"


class Limits(msgspec.Struct, frozen=True):
    """Hard ceilings of one sandbox. Sizes in bytes, times in seconds, cpu in cores."""

    cpu: float = 1.0
    memory: int = 512 << 20
    pids: int = 128
    disk: int = 1 << 30
    files: int = 1024
    output: int = 16 << 20
    time: float | None = None

    @classmethod
    def parse(cls, raw: Mapping[str, Any] | None) -> Limits:
        """Return limits from a plain dict. Raises InvalidInput for unknown keys and senseless
        values."""
        if raw is not None and not isinstance(raw, Mapping):
            raise InvalidInput(f"limits: {raw!r} is not a mapping such as {{'memory': '512MiB'}}")
        raw = dict(raw or {})
        _forbid_unknown(raw, list(cls.__struct_fields__), "limits")
        parsed: dict[str, Any] = {}
        for name, value in raw.items():
            parsed[name] = _LIMIT_PARSERS[name](value, f"limits.{name}")
        for name, floor in _FLOORS.items():
            if name in parsed and parsed[name] < floor:
                raise _too_little(name, raw[name], parsed[name])
        return cls(**parsed)


class Mount(msgspec.Struct, frozen=True):
    """A host path or a volume, seen inside at `target`."""

    target: str
    mode: MountMode
    source: str | None = None
    volume: str | None = None
    # Device and inode of the source when it was first resolved; it must be the same ever after.
    identity: tuple[int, int] | None = None
    # Paths in the source that the sandbox does not get to see, whatever is there.
    hidden: tuple[str, ...] = ()
    # Files in the source of a `write` mount that stay read-only: paddock files and what they name.
    read_only: tuple[str, ...] = ()

    @property
    def fixed_paths(self) -> tuple[str, ...]:
        """Return the read-only files and the directories on the way to them, parents first. Each
        becomes a mount of its own: a mount point cannot be renamed or removed from inside."""
        found: dict[str, None] = {}
        for path in self.read_only:
            parts = path.split("/")
            found |= dict.fromkeys("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        return tuple(found)

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Mount:
        if not isinstance(raw, Mapping):
            raise InvalidInput(
                f"mounts: {raw!r:.80} is not a mapping",
                hint="write {source: ./data, target: /data, mode: read}",
            )
        _forbid_unknown(raw, ["source", "target", "mode", "volume", "hidden"], "mounts")
        source, volume = raw.get("source"), raw.get("volume")
        if (source is None) == (volume is None):
            raise InvalidInput(f"mounts: {dict(raw)!r} needs either a source or a volume")
        mode = _mount_mode(raw.get("mode", "read" if volume is None else "write"))
        if volume is not None and mode is MountMode.OVERLAY:
            raise InvalidInput(f"mounts: volume {volume!r} cannot be an overlay; use read or write")
        hidden = hidden_paths(raw.get("hidden", ()))
        if hidden and (volume is not None or mode is MountMode.WRITE):
            raise InvalidInput(
                "mounts.hidden: only read and overlay mounts of a source can hide something",
                hint="what is mounted for writing is there as it is",
            )
        if "target" not in raw:
            raise InvalidInput(f"mounts: {dict(raw)!r} has no target, e.g. target: /workspace")
        return cls(
            target=mount_target(raw["target"]),
            mode=mode,
            source=None if source is None else host_path(source),
            volume=None if volume is None else identifier(volume, "volume"),
            hidden=hidden,
        )


class SpecOptions(TypedDict, total=False):
    """The options of `Sandbox.create`; each may be left out."""

    limits: Mapping[str, Any] | None  # cpu, memory, pids, disk, files, output, time
    mounts: Iterable[Mapping[str, Any]] | None  # source or volume, target, mode
    envs: Mapping[str, str] | None
    template: str  # host, dir:/path, or the name of an added one
    snapshot: str | None
    timeout: float | str  # the sandbox ends after this
    metadata: Mapping[str, str] | None
    audit_files: bool  # tell reads and writes of files, where the host can


class Spec(msgspec.Struct, frozen=True):
    """One sandbox as asked for."""

    limits: Limits = msgspec.field(default_factory=Limits)
    mounts: tuple[Mount, ...] = ()
    envs: tuple[tuple[str, str], ...] = ()
    template: str = "host"
    snapshot: str | None = None
    timeout_s: float = 300.0
    metadata: tuple[tuple[str, str], ...] = ()
    audit_files: bool = True

    @classmethod
    def parse(cls, **options: Unpack[SpecOptions]) -> Spec:
        """Return a spec from what the caller wrote. Raises InvalidInput and names the key."""
        _forbid_unknown(options, list(SpecOptions.__annotations__), "sandbox")
        mounts = options.get("mounts") or ()
        if not isinstance(mounts, list | tuple):
            raise InvalidInput(f"mounts: {mounts!r} is not a list of mounts")
        if len(mounts) > MAX_MOUNTS:
            raise InvalidInput(f"mounts: {len(mounts)} are more than {MAX_MOUNTS}")
        parsed = tuple(Mount.parse(m) for m in mounts)
        _forbid_overlap([m.target for m in parsed])
        snapshot = options.get("snapshot")
        return cls(
            limits=Limits.parse(options.get("limits")),
            mounts=parsed,
            envs=parse_envs(options.get("envs")),
            template=template_name(options.get("template", "host")),
            snapshot=None if snapshot is None else identifier(snapshot, "snapshot"),
            timeout_s=parse_duration(options.get("timeout", 300), "timeout"),
            metadata=_text_pairs(options.get("metadata"), "metadata"),
            audit_files=bool(options.get("audit_files", True)),
        )

    @property
    def is_poolable(self) -> bool:
        """Return whether a pooled machine can serve the spec. It is already running, so there must
        be no own mounts."""
        return not self.mounts and self.snapshot is None and self.template == "host"


def parse_envs(envs: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return environment pairs; names must be shell names, values text without NUL."""
    pairs = _text_pairs(envs, "envs")
    for name, _ in pairs:
        if not _ENV_NAME.fullmatch(name):
            raise InvalidInput(f"envs: {name!r} is not a variable name (letters, digits, _)")
    return pairs


def sandbox_path(path: str, cwd: str = HOME) -> str:
    """Return an absolute, lexically normal path inside the sandbox; relative ones start at the
    home."""
    text = _text(path, "path")
    if not text:
        raise InvalidInput("path: empty; give a path inside the sandbox")
    if len(text_bytes(text, "path")) > MAX_PATH_BYTES:
        raise InvalidInput(f"path: longer than {MAX_PATH_BYTES} bytes: {text[:60]}...")
    # Not normpath: `a/../b` must stay what the kernel would make of it when `a` is a link.
    whole = text if text.startswith("/") else posixpath.join(cwd, text)
    return "/" + "/".join(part for part in whole.split("/") if part not in ("", "."))


def mount_target(target: Any) -> str:
    """Return a canonical absolute mount target that does not cover a system path."""
    text = _text(target, "mounts.target")
    if not text.startswith("/") or ".." in text.split("/"):
        message = f"mounts.target: {text!r} is not an absolute path without '..'"
        raise InvalidInput(message, hint="as in /data")
    clean = "/" + "/".join(p for p in text.split("/") if p not in ("", "."))
    for reserved in RESERVED_TARGETS:
        inside = reserved not in _OPEN_BELOW and clean.startswith(reserved + "/")
        if clean == reserved or inside:
            raise InvalidInput(f"mounts.target: {text!r} would cover the system path {reserved}")
    return clean


def hidden_paths(raw: Any) -> tuple[str, ...]:
    """Return paths relative to a mount's source, each in canonical form, none inside another."""
    if not isinstance(raw, list | tuple):
        raise InvalidInput(f"mounts.hidden: {raw!r} is not a list of paths")
    if len(raw) > MAX_HIDDEN:
        raise InvalidInput(f"mounts.hidden: {len(raw)} are more than {MAX_HIDDEN}")
    whole = sorted({_hidden_path(path) for path in raw}, key=lambda path: path.split("/"))
    kept: list[str] = []
    for path in whole:
        if not kept or not path.startswith(kept[-1] + "/"):
            kept.append(path)
    return tuple(kept)


def _hidden_path(path: Any) -> str:
    text = _text(path, "mounts.hidden")
    parts = text.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise InvalidInput(
            f"mounts.hidden: {text!r} is no plain path inside the source",
            hint="write it like conf/.env: relative, without '.', '..' and doubled slashes",
        )
    is_long = len(text_bytes(text, "mounts.hidden")) > MAX_PATH_BYTES
    if is_long or len(parts) > MAX_HIDDEN_DEPTH:
        raise InvalidInput(
            f"mounts.hidden: {text[:60]!r}... is longer than {MAX_PATH_BYTES} bytes "
            f"or deeper than {MAX_HIDDEN_DEPTH} directories"
        )
    return text


def host_path(source: Any) -> str:
    """Return a host path as the caller wrote it (resolved later by the fence, once)."""
    text = _text(source, "mounts.source")
    if not text:
        raise InvalidInput("mounts.source: empty; give a directory or file of the host")
    return text


def identifier(value: Any, what: str) -> str:
    """Return a name that is safe as one path component."""
    text = _text(value, what)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", text):
        raise InvalidInput(f"{what}: {text[:80]!r} is not a name (letters, digits, '.', '_', '-')")
    return text


def template_name(value: Any) -> str:
    """Return the name of a template: `host`, `dir:/path/to/rootfs`, or an added one."""
    text = _text(value, "template")
    if text.startswith("dir:"):
        if not text[4:].startswith("/"):
            raise InvalidInput(f"template: {text!r} needs an absolute path, as in dir:/srv/rootfs")
        return text
    if ":" in text or "/" in text:
        raise InvalidInput(
            f"template: {text[:80]!r} is not the name of a template",
            hint="write host, dir:/path, or a name that paddock template list shows",
        )
    return identifier(text, "template")


def _mount_mode(value: Any) -> MountMode:
    try:
        return MountMode(value)
    except ValueError:
        meant = {"ro": "say read", "rw": "say write"}.get(str(value).lower())
        message = f"mounts.mode: {value!r} is none of read, write or overlay"
        raise InvalidInput(message, hint=meant) from None


def _forbid_unknown(raw: Mapping[str, Any], known: list[str], where: str) -> None:
    for key in raw:
        if key not in known:
            import difflib  # only who has made a mistake waits for it

            near = difflib.get_close_matches(str(key), known, n=1)
            raise InvalidInput(
                f"{where}: unknown key {key!r}; known keys are {', '.join(known)}",
                hint=f"did you mean {near[0]}?" if near else None,
            )


def _forbid_overlap(targets: list[str]) -> None:
    for n, target in enumerate(targets):
        for other in targets[:n]:
            if target == other:
                raise InvalidInput(f"mounts.target: {target!r} is used twice")
            inner, outer = max(target, other, key=len), min(target, other, key=len)
            if inner.startswith(outer + "/"):
                # What lies in a mount can be changed by others while we mount on it.
                raise InvalidInput(f"mounts.target: {inner!r} lies inside the mount at {outer!r}")


def _text_pairs(raw: Mapping[str, str] | None, what: str) -> tuple[tuple[str, str], ...]:
    if raw is not None and not isinstance(raw, Mapping):
        raise InvalidInput(f"{what}: not a mapping of names to text", hint="write {NAME: text}")
    return tuple((_text(k, what), _text(v, f"{what}.{k}")) for k, v in (raw or {}).items())


def _text(value: Any, what: str) -> str:
    if hasattr(value, "__fspath__"):
        value = value.__fspath__()
    if not isinstance(value, str):
        is_plain = isinstance(value, bool | int | float)
        hint = f'write "{str(value).lower()}", in quotes' if is_plain else None
        raise InvalidInput(f"{what}: {value!r:.60} is not text", hint=hint)
    if "\0" in value:
        raise InvalidInput(f"{what}: contains a NUL byte: {value[:60]!r}")
    text_bytes(value, what)
    return value


def text_bytes(value: str, what: str) -> bytes:
    """Return a text as the kernel gets it; text that stands for no bytes is refused."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidInput(f"{what}: contains a lone surrogate: {value[:60]!r}") from None


def _too_little(name: str, value: Any, parsed: float) -> InvalidInput:
    """Return the error for a limit under which nothing could start."""
    is_size = _LIMIT_PARSERS[name] is parse_size
    floor = format_size(int(_FLOORS[name])) if is_size else f"{_FLOORS[name]}"
    is_bare = is_size and str(value).strip().replace(".", "").isdecimal()
    shown = f"{value!r} {'has no unit, so it is in bytes' if is_bare else 'is too little'}"
    # Who leaves the unit out has most often thought of GiB or MiB.
    unit = "GiB" if parsed < 32 and name != "output" else "MiB"
    hint = f"write the unit, as in {value}{unit}" if is_bare else None
    return InvalidInput(f"limits.{name}: {shown}; a sandbox needs at least {floor}", hint=hint)


def _count(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_COUNT:
        raise InvalidInput(
            f"{what}: {value!r} is not a whole number from 1 to {MAX_COUNT}",
            hint="write it without quotes or unit, as in 256",
        )
    return value


def _cores(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 10_000:
        raise InvalidInput(
            f"{what}: {value!r} is not a number of cores",
            hint="write 0.5 or 2, without quotes or unit",
        )
    return float(value)


_LIMIT_PARSERS: dict[str, Any] = {
    "cpu": _cores,
    "memory": parse_size,
    "pids": _count,
    "disk": parse_size,
    "files": _count,
    "output": parse_size,
    "time": parse_duration,
}
