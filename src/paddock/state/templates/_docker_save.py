"""The format of `docker save`: `manifest.json` names a config and layers by their paths.

Layers are checked against the config's digests of their plain archives by whoever unpacks them;
the config against the digest that is its name.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from paddock.model.errors import InvalidInput
from paddock.state.templates._image import (
    MAX_JSON_BYTES,
    Image,
    ImageConfig,
    ImageLayer,
    check_part,
    image_of,
    read_json,
)
from paddock.state.templates._image_files import ImageFiles

_NAMED_BY_DIGEST = re.compile(r"(?:.*/)?([0-9a-f]{64})(?:\.json)?")


class _SavedImage(msgspec.Struct, frozen=True):
    """An entry of `manifest.json`."""

    Config: str
    Layers: list[str]
    RepoTags: Any = None


def is_docker_save(files: ImageFiles) -> bool:
    """Return whether `manifest.json` is docker's and not some file of that name in a root file
    system."""
    window = files.open("manifest.json")
    if window is None:
        return False
    with window:
        content = window.read(MAX_JSON_BYTES)
    try:
        entries = msgspec.json.decode(content, type=list[dict[str, Any]])
    except (msgspec.MsgspecError, RecursionError):
        return False
    return all({"Config", "Layers"} <= entry.keys() for entry in entries)


def read_docker_save(files: ImageFiles) -> Image:
    """Return the one image in the archive."""
    images, _ = read_json(files, "manifest.json", list[_SavedImage])
    saved = _only(images)
    config, digest = read_json(files, saved.Config, ImageConfig)
    named = _NAMED_BY_DIGEST.fullmatch(saved.Config)
    if named:
        check_part(saved.Config, digest, f"sha256:{named[1]}")
    diff_ids = [] if config.rootfs is None else config.rootfs.diff_ids
    if len(saved.Layers) != len(diff_ids):
        raise InvalidInput("the image's config and manifest do not name the same layers")
    names = zip(saved.Layers, diff_ids, strict=True)
    layers = tuple(ImageLayer(name, diff_id=diff_id) for name, diff_id in names)
    return image_of(config, digest, layers)


def _only(images: list[_SavedImage]) -> _SavedImage:
    different = {image.Config for image in images}
    if len(different) == 1:
        return images[0]
    tags = sorted(ascii(image.RepoTags)[:80] for image in images)
    raise InvalidInput(
        f"the archive holds {len(different)} images: {', '.join(tags[:8]) or 'none'}",
        hint="save only one of them",
    )
