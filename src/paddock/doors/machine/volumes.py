"""Volumes: named directories that outlive sandboxes, with a quota, shared by who mounts them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import asdict

from paddock.doors.machine.engine import Engine
from paddock.fence.offload import offload
from paddock.fence.uids import LAYER_OWNER
from paddock.model.errors import Conflict, NotFound
from paddock.model.sizes import parse_size
from paddock.model.spec import identifier
from paddock.state.home import Home
from paddock.state.layers.layers import Layers, volume_layer
from paddock.state.privilege import is_privileged

DEFAULT_QUOTA = 1 << 30


class Volume(msgspec.Struct, frozen=True):
    """A persistent directory. Mount it by name: `{"volume": name, "target": "/data"}`."""

    name: str
    quota_bytes: int
    created_at: float

    @classmethod
    def create(cls, name: str, quota: int | str = DEFAULT_QUOTA) -> Volume:
        """Makes a volume; the name must be free."""
        engine = Engine.current()
        volume = cls(identifier(name, "volume"), parse_size(quota, "quota"), time.time())
        engine.call(_create(engine, volume))
        return volume

    @classmethod
    def get(cls, name: str) -> Volume:
        """Returns the volume of that name."""
        return read_volume(Home.find(), identifier(name, "volume"))

    @classmethod
    def list(cls) -> list[Volume]:
        """Lists all volumes, by name."""
        home = Home.find()
        names = sorted(p.stem for p in home.volumes.glob("*.json"))
        return [read_volume(home, name) for name in names]

    def used_bytes(self) -> int:
        """Returns how many bytes it holds now."""
        engine = Engine.current()
        return engine.call(_used(engine, self))

    def delete(self) -> None:
        """Removes the volume and all in it; refused while a sandbox of any process mounts it."""
        engine = Engine.current()
        engine.call(_delete(engine, self))


def read_volume(home: Home, name: str) -> Volume:
    try:
        return Volume(**json.loads((home.volumes / f"{name}.json").read_text()))
    except FileNotFoundError:
        raise NotFound(
            f"no volume {name!r}",
            hint=f"paddock volume list shows them, paddock volume create {name} makes it",
        ) from None


def quotas(home: Home, names: Iterable[str]) -> dict[str, int]:
    """Return the layers of the named volumes with what each may hold."""
    return {volume_layer(n): read_volume(home, n).quota_bytes for n in names}


async def _create(engine: Engine, volume: Volume) -> None:
    layers = (await engine.driver()).layers
    await offload(_make, engine.home, layers, volume)


def _make(home: Home, layers: Layers, volume: Volume) -> None:
    home.volumes.mkdir(mode=0o700, exist_ok=True)
    record = home.volumes / f"{volume.name}.json"
    with home.lock("volumes"):
        if record.exists():
            raise Conflict(f"volume {volume.name!r} exists already", hint="Volume.get gives it")
        path = layers.create(volume_layer(volume.name), volume.quota_bytes, LAYER_OWNER)
        data = path / "data"
        data.mkdir(mode=0o755)
        if is_privileged():
            os.chown(data, *LAYER_OWNER)
        _write_record(record, volume)


def _write_record(record: Path, volume: Volume) -> None:
    temporary = record.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(volume)))
    temporary.rename(record)


async def _used(engine: Engine, volume: Volume) -> int:
    layers = (await engine.driver()).layers
    return await offload(layers.used_bytes, volume_layer(volume.name))


async def _delete(engine: Engine, volume: Volume) -> None:
    layers = (await engine.driver()).layers
    await offload(_remove, engine.home, layers, volume.name)


def _remove(home: Home, layers: Layers, name: str) -> None:
    with home.lock("volumes"):
        read_volume(home, name)
        users = mounting(home, name)
        if users:
            raise Conflict(
                f"volume {name!r} is mounted by sandbox {', '.join(users)}",
                hint=f"paddock kill {' '.join(users)}",
            )
        layers.destroy(volume_layer(name))
        (home.volumes / f"{name}.json").unlink()


def mounting(home: Home, name: str) -> list[str]:
    """Return the sandboxes that have the volume mounted now, of any process."""
    from paddock.state.home import SandboxRecord, held

    sandboxes = []
    for directory in home.sandboxes.iterdir():
        record = SandboxRecord.read(directory)
        if record and name in (record.info or {}).get("volumes", ()) and held(directory):
            sandboxes.append(record.sandbox_id)
    return sandboxes
