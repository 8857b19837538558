"""The format of `docker save`: `manifest.json` names a config and layers by their paths.

Layers are checked against the config's digests of their plain archives by whoever unpacks them;
the config against the digest that is its name.
"""

from __future__ import annotations

import json
import re
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.state.templates.image import (
    MAX_JSON_BYTES,
    Image,
    ImageLayer,
    as_array,
    as_object,
    as_text,
    check_part,
    image_of,
    read_json,
)
from paddock.state.templates.image_files import ImageFiles

_NAMED_BY_DIGEST = re.compile(r"(?:.*/)?([0-9a-f]{64})(?:\.json)?")
_DIFF_ID = re.compile(r"sha256:[0-9a-f]{64}")


def is_docker_save(files: ImageFiles) -> bool:
    """Return whether `manifest.json` is docker's and not some file of that name in a root file
    system."""
    window = files.open("manifest.json")
    if window is None:
        return False
    with window:
        content = window.read(MAX_JSON_BYTES)
    try:
        entries = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(entries, list) and all(
        isinstance(entry, dict) and {"Config", "Layers"} <= entry.keys() for entry in entries
    )


def read_docker_save(files: ImageFiles) -> Image:
    """The one image in the archive."""
    entries, _ = read_json(files, "manifest.json")
    entry = _only([as_object(raw, "manifest.json") for raw in as_array(entries, "manifest.json")])
    config_name = as_text(entry.get("Config"), "Config")
    config, digest = read_json(files, config_name)
    named = _NAMED_BY_DIGEST.fullmatch(config_name)
    if named:
        check_part(config_name, digest, f"sha256:{named[1]}")
    names = [as_text(name, "Layers") for name in as_array(entry.get("Layers"), "Layers")]
    diff_ids = _diff_ids(config)
    if len(names) != len(diff_ids):
        raise InvalidInput("the image's config and manifest do not name the same layers")
    layers = (ImageLayer(name, diff_id=diff) for name, diff in zip(names, diff_ids, strict=True))
    return image_of(config, digest, tuple(layers))


def _only(entries: list[Any]) -> Any:
    different = {str(entry.get("Config")): entry for entry in entries}
    if len(different) == 1:
        return entries[0]
    tags = sorted(ascii(entry.get("RepoTags"))[:80] for entry in entries)
    raise InvalidInput(
        f"the archive holds {len(different)} images: {', '.join(tags[:8]) or 'none'}",
        hint="save only one of them",
    )


def _diff_ids(config: Any) -> list[str]:
    rootfs = as_object(as_object(config, "the image's config").get("rootfs"), "rootfs")
    found = [as_text(diff, "diff_ids") for diff in as_array(rootfs.get("diff_ids"), "diff_ids")]
    for diff in found:
        if not _DIFF_ID.fullmatch(diff):
            raise InvalidInput(f"the image names a layer without a sha256 digest: {diff[:80]!r}")
    return found
