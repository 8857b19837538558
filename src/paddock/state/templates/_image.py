"""An image once it has been understood, and how its JSON is read. Nothing is unpacked here.

All JSON of an image is untrusted: it is bounded before it is parsed, and parsed into typed values.
The two formats themselves are in `_oci` and `_docker_save`.
"""

from __future__ import annotations

import hashlib
import platform
from typing import Annotated, TypeVar

import msgspec

from paddock.model.errors import HostCannot, IntegrityError, InvalidInput
from paddock.state.templates._image_files import ImageFiles

# The registry protocol's own limit for manifests; configs are smaller still.
MAX_JSON_BYTES = 4 << 20
MAX_LAYERS = 512
T = TypeVar("T")
Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
_ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "armv6l": "arm",
    "i686": "386",
    "i386": "386",
    "loongarch64": "loong64",
}


class ImageLayer(msgspec.Struct, frozen=True):
    """One layer's archive. `digest` is of the stored bytes, `diff_id` of the plain tar; one of
    them is known, and is to be checked while the layer is unpacked."""

    name: str
    size: int | None = None
    digest: str | None = None
    diff_id: str | None = None


class ProcessConfig(msgspec.Struct, frozen=True):
    """The start configuration of a process in an image, under the names that images have for it."""

    Env: list[str] | None = None
    WorkingDir: str | None = None


class RootfsConfig(msgspec.Struct, frozen=True):
    """The digests of the plain archives of an image's layers."""

    diff_ids: list[Digest]


class ImageConfig(msgspec.Struct, frozen=True):
    """The config of an image, as far as it is used here."""

    architecture: str | None = None
    config: ProcessConfig | None = None
    rootfs: RootfsConfig | None = None


class Image(msgspec.Struct, frozen=True):
    """The layers to unpack, and how a process in the image starts out."""

    digest: str
    layers: tuple[ImageLayer, ...]
    env: tuple[tuple[str, str], ...] = ()
    workdir: str = "/"


def host_architecture() -> str:
    """Return this machine's name in the vocabulary of images."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def refuse_architecture(there: set[str]) -> HostCannot:
    """Return the error for an image that has nothing for this machine."""
    return HostCannot(
        f"the image has nothing for this machine ({host_architecture()});"
        f" it has: {', '.join(sorted(there)) or 'nothing'}",
        hint="pull the image for this platform and save it again",
    )


def image_of(config: ImageConfig, digest: str, layers: tuple[ImageLayer, ...]) -> Image:
    """Return the image that a config describes, if it is for this machine."""
    if config.architecture and config.architecture != host_architecture():
        raise refuse_architecture({config.architecture[:40]})
    if len(layers) > MAX_LAYERS:
        raise InvalidInput(f"the image has more than {MAX_LAYERS} layers")
    process = config.config or ProcessConfig()
    pairs = (item.partition("=") for item in process.Env or ())
    env = tuple((key, value) for key, equals, value in pairs if key and equals)
    workdir = process.WorkingDir or "/"
    for text in (workdir, *(text for pair in env for text in pair)):
        if "\0" in text:
            raise InvalidInput(f"the image's Env or WorkingDir cannot be used: {ascii(text)[:80]}")
    return Image(digest, layers, env, workdir if workdir.startswith("/") else f"/{workdir}")


def read_json(files: ImageFiles, name: str, kind: type[T]) -> tuple[T, str]:
    """Return a JSON file of the image, and the digest of its bytes. Raises InvalidInput for a file
    that is not of that kind."""
    window = files.open(name)
    if window is None:
        raise InvalidInput(f"the image has no {name[:120]!r}", hint="save it again: it is cut")
    with window:
        if window.size > MAX_JSON_BYTES:
            raise InvalidInput(f"the image's {name[:120]!r} is too large to be JSON")
        content = window.read(MAX_JSON_BYTES)
    try:
        value = msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"the image's {name[:120]!r} is malformed: {error!s:.200}") from None
    return value, f"sha256:{hashlib.sha256(content).hexdigest()}"


def check_part(name: str, found: str, expected: str) -> None:
    """Raise IntegrityError unless a part of the image has the digest that it should have."""
    if found != expected:
        raise IntegrityError(
            f"the image's {name[:120]!r} does not match its digest {expected}",
            hint="it was changed or damaged; save or pull it again",
        )
