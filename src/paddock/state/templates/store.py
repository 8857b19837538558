"""Templates: root file systems by name, made once from images and then only read.

A store is a directory with one directory for each template: `rootfs/` and `template.json`. How an
image is read and unpacked lives in `_image_source`; here it becomes a template, or nothing.
"""

from __future__ import annotations

import builtins
import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paddock.model.errors import Conflict, HostCannot, IntegrityError, InvalidInput, NotFound
from paddock.model.spec import identifier
from paddock.objects.file_bytes import sync_file_system
from paddock.objects.store_lock import StoreLock
from paddock.state.files.descent import DIR_FLAGS
from paddock.state.files.tree_walk import remove
from paddock.state.templates._image_source import unpack_source
from paddock.state.templates.layer_archive import Unpacker, UnpackLimits

_UNFINISHED = ".new-"


class StoredTemplate(msgspec.Struct, frozen=True):
    """A root file system and how a process in it starts out. Links inside `rootfs` mean paths of
    the template: whoever reads it from the host must not follow them."""

    name: str
    rootfs: Path
    digest: str
    env: tuple[tuple[str, str], ...]
    workdir: str
    added_at: float
    size_bytes: int = 0
    entries: int = 0
    skipped_devices: int = 0


class TemplateStore:
    """The templates below one directory. Several processes may use it at once."""

    def __init__(self, root: Path, *, limits: UnpackLimits | None = None) -> None:
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._root = root
        self._limits = limits
        self._lock = StoreLock(root / ".lock")

    def add(self, source: Path, *, name: str, limits: UnpackLimits | None = None) -> StoredTemplate:
        """Unpack an image under a name that is still free. A failed add leaves nothing. Without
        limits of its own, or of the store, it may grow in proportion to its size."""
        _check_name(name)
        if self._place(name).exists():
            raise _exists(name)
        self.sweep()
        with self._lock.shared(), self._unfinished() as directory:
            bounds = limits or self._limits or UnpackLimits.for_source(source)
            template = self._unpack(source, name, directory, bounds)
            _write_record(directory, template)
            _sync(directory)
            try:
                os.rename(directory, self._place(name))
            except OSError:
                raise _exists(name) from None
            return template

    def get(self, name: str) -> StoredTemplate:
        """Return the template of that name. Raises NotFound when there is none."""
        _check_name(name)
        try:
            content = (self._place(name) / "template.json").read_text()
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(name) from None
        try:
            fields = json.loads(content)
            env = tuple((str(key), str(value)) for key, value in fields.pop("env"))
            return StoredTemplate(rootfs=self._place(name) / "rootfs", env=env, **fields)
        except (ValueError, TypeError, KeyError):
            raise IntegrityError(
                f"the record of template {name} was changed or damaged",
                hint="remove it and add it again",
            ) from None

    def list(self) -> builtins.list[StoredTemplate]:
        """Return all templates, by name. One with a damaged record is left out; `get` says why."""
        templates = []
        for name in sorted(os.listdir(self._root)):
            with contextlib.suppress(IntegrityError, InvalidInput, NotFound):
                templates.append(self.get(name))
        return templates

    def remove(self, name: str) -> None:
        """Forget a template and free its space. Sandboxes that still run in it lose it."""
        _check_name(name)
        with self._lock.shared():  # keeps others from sweeping what we are removing
            gone = f"{_UNFINISHED}{secrets.token_hex(8)}"
            try:
                os.rename(self._place(name), self._place(gone))
            except FileNotFoundError:
                raise _missing(name) from None
            self._remove(gone)

    def _unpack(
        self, source: Path, name: str, directory: Path, limits: UnpackLimits
    ) -> StoredTemplate:
        rootfs = directory / "rootfs"
        rootfs.mkdir()
        rootfs.chmod(0o755)
        unpacker = Unpacker(rootfs, limits)
        try:
            image = unpack_source(source, unpacker, limits, directory)
        finally:
            unpacker.close()
        return StoredTemplate(
            name=name,
            rootfs=self._place(name) / "rootfs",
            digest=image.digest,
            env=image.env,
            workdir=image.workdir,
            added_at=time.time(),
            size_bytes=unpacker.size_bytes,
            entries=unpacker.entries,
            skipped_devices=unpacker.skipped_devices,
        )

    @contextlib.contextmanager
    def _unfinished(self) -> Iterator[Path]:
        """Make a private directory that is removed again unless it was renamed away."""
        directory = self._root / f"{_UNFINISHED}{secrets.token_hex(8)}"
        try:
            directory.mkdir(mode=0o700)
        except OSError as error:
            raise HostCannot(f"cannot write to {self._root}: {error.strerror}") from None
        try:
            yield directory
        finally:
            self._remove(directory.name)

    def unfinished(self) -> builtins.list[Path]:
        """Return what adds and removals have left that crashed, or that are still under way."""
        return [self._place(n) for n in os.listdir(self._root) if n.startswith(_UNFINISHED)]

    def sweep(self) -> None:
        """Remove what crashed adds left, if no add is under way."""
        with self._lock.exclusive_if_free() as is_ours:
            for path in self.unfinished() if is_ours else ():
                self._remove(path.name)

    def _remove(self, name: str) -> None:
        fd = os.open(self._root, DIR_FLAGS)
        try:
            remove(name, fd)
        finally:
            os.close(fd)

    def _place(self, name: str) -> Path:
        return self._root / name


def _check_name(name: str) -> None:
    if identifier(name, "template") == "host":
        raise InvalidInput("template: 'host' is the name of the host's own /usr")


def _write_record(directory: Path, template: StoredTemplate) -> None:
    fields = msgspec.structs.asdict(template)
    del fields["rootfs"]
    (directory / "template.json").write_text(json.dumps(fields))
    # The sandbox runs under another uid, and has to come through here.
    directory.chmod(0o755)


def _sync(directory: Path) -> None:
    fd = os.open(directory, DIR_FLAGS)
    try:
        sync_file_system(fd)
    finally:
        os.close(fd)


def _exists(name: str) -> Conflict:
    return Conflict(f"template {name} exists already", hint="remove it first, or choose a name")


def _missing(name: str) -> NotFound:
    return NotFound(f"no template {name}", hint="paddock template list shows them")
