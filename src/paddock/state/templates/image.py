"""An image once it has been understood, and how its JSON is read. Nothing is unpacked here.

All JSON of an image is untrusted: it is bounded before it is parsed, and every field is checked
for its type before it is used. The two formats themselves are in `oci` and `docker_save`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.model.errors import HostCannot, IntegrityError, InvalidInput
from paddock.state.templates.image_files import ImageFiles

# The registry protocol's own limit for manifests; configs are smaller still.
MAX_JSON_BYTES = 4 << 20
MAX_LAYERS = 512
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


def image_of(config: Any, digest: str, layers: tuple[ImageLayer, ...]) -> Image:
    """Return the image that a config describes, if it is for this machine."""
    fields = as_object(config, "the image's config")
    architecture = fields.get("architecture")
    if architecture and architecture != host_architecture():
        raise refuse_architecture({str(architecture)[:40]})
    if len(layers) > MAX_LAYERS:
        raise InvalidInput(f"the image has more than {MAX_LAYERS} layers")
    start = as_object(fields.get("config") or {}, "the image's config.config")
    pairs = (
        as_text(item, "Env").partition("=") for item in as_array(start.get("Env") or [], "Env")
    )
    env = tuple((key, value) for key, equals, value in pairs if key and equals)
    workdir = as_text(start.get("WorkingDir") or "/", "WorkingDir")
    for text in (workdir, *(text for pair in env for text in pair)):
        if "\0" in text or not _is_encodable(text):
            raise InvalidInput(f"the image's Env or WorkingDir cannot be used: {ascii(text)[:80]}")
    return Image(digest, layers, env, workdir if workdir.startswith("/") else f"/{workdir}")


def read_json(files: ImageFiles, name: str) -> tuple[Any, str]:
    """Return a parsed JSON file of the image, and the digest of its bytes."""
    window = files.open(name)
    if window is None:
        raise InvalidInput(f"the image has no {name[:120]!r}", hint="save it again: it is cut")
    with window:
        if window.size > MAX_JSON_BYTES:
            raise InvalidInput(f"the image's {name[:120]!r} is too large to be JSON")
        content = window.read(MAX_JSON_BYTES)
    try:
        return json.loads(content), f"sha256:{hashlib.sha256(content).hexdigest()}"
    except (ValueError, RecursionError):
        raise InvalidInput(f"the image's {name[:120]!r} is no JSON") from None


def check_part(name: str, found: str, expected: str) -> None:
    """Raise IntegrityError unless a part of the image has the digest that it should have."""
    if found != expected:
        raise IntegrityError(
            f"the image's {name[:120]!r} does not match its digest {expected}",
            hint="it was changed or damaged; save or pull it again",
        )


def as_object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{what} is not a JSON object")
    return value


def as_array(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInput(f"the image's {what} is not a JSON array")
    return value


def as_text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"the image's {what} is not a JSON string")
    return value


def _is_encodable(text: str) -> bool:
    """Return whether an environment can hold a text: JSON can write half a surrogate pair."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
