"""The OCI image layout: which manifest is for this machine, and the layers that it names.

Every part but `index.json` itself is named by a descriptor, and is used only if it has that
digest and size. Layers are checked by whoever unpacks them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from paddock.model.errors import IntegrityError, InvalidInput
from paddock.state.templates.image import (
    Image,
    ImageLayer,
    as_array,
    as_object,
    check_part,
    host_architecture,
    image_of,
    read_json,
    refuse_architecture,
)
from paddock.state.templates.image_files import ImageFiles

_MAX_INDEX_DEPTH, _MAX_MANIFESTS = 4, 1000
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_INDEX_TYPES = frozenset(
    {
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    }
)


class _Descriptor(msgspec.Struct, frozen=True):
    digest: str
    size: int
    is_index: bool
    architecture: str | None
    variant: str
    label: str

    @property
    def name(self) -> str:
        return f"blobs/sha256/{self.digest.removeprefix('sha256:')}"


def read_layout(files: ImageFiles) -> Image:
    """Return the image for this machine out of a layout."""
    index, _ = read_json(files, "index.json")
    chosen = _choose(files, list(_manifests(files, index, _MAX_INDEX_DEPTH)))
    manifest = as_object(_read_part(files, chosen), "the image's manifest")
    parts = [_descriptor(raw) for raw in as_array(manifest.get("layers"), "layers")]
    layers = tuple(ImageLayer(part.name, size=part.size, digest=part.digest) for part in parts)
    config = _read_part(files, _descriptor(manifest.get("config")))
    return image_of(config, chosen.digest, layers)


def _manifests(files: ImageFiles, index: Any, depth: int) -> Iterator[_Descriptor]:
    """Yield all manifests below an index; indexes may be nested."""
    if depth == 0:
        raise InvalidInput("the image's indexes are nested too deeply")
    listed = as_array(as_object(index, "an image index").get("manifests"), "manifests")
    if len(listed) > _MAX_MANIFESTS:
        raise InvalidInput(f"an index of the image lists more than {_MAX_MANIFESTS} manifests")
    for descriptor in map(_descriptor, listed):
        if descriptor.is_index:
            yield from _manifests(files, _read_part(files, descriptor), depth - 1)
        elif descriptor.architecture != "unknown":  # what build attestations say
            yield descriptor


def _choose(files: ImageFiles, manifests: list[_Descriptor]) -> _Descriptor:
    host = host_architecture()
    known = {d.digest: (d, d.architecture or _config_says(files, d)) for d in manifests}
    fitting = [d for d, architecture in known.values() if architecture in (host, None)]
    if not fitting:
        raise refuse_architecture({str(architecture) for _, architecture in known.values()})
    # Without a variant, or with the lowest, it runs on every machine of the architecture.
    lowest = min(d.variant for d in fitting)
    best = [d for d in fitting if d.variant == lowest]
    if len(best) == 1:
        return best[0]
    labels = ", ".join(sorted(d.label for d in best)[:8])
    raise InvalidInput(
        f"the source holds {len(best)} images: {labels}", hint="save only one of them"
    )


def _config_says(files: ImageFiles, descriptor: _Descriptor) -> str | None:
    """Return the architecture in the config, for a manifest that is listed without its platform."""
    manifest = as_object(_read_part(files, descriptor), "the image's manifest")
    config = as_object(_read_part(files, _descriptor(manifest.get("config"))), "the image's config")
    found = config.get("architecture")
    return found if isinstance(found, str) and found else None


def _read_part(files: ImageFiles, descriptor: _Descriptor) -> Any:
    window = files.open(descriptor.name)
    if window is not None:
        window.close()
        if window.size != descriptor.size:
            raise IntegrityError(
                f"the image's {descriptor.name!r} has {window.size} bytes, not {descriptor.size}",
                hint="it was changed or damaged; save or pull it again",
            )
    value, digest = read_json(files, descriptor.name)
    check_part(descriptor.name, digest, descriptor.digest)
    return value


def _descriptor(raw: Any) -> _Descriptor:
    fields = as_object(raw, "a descriptor of the image")
    digest, size = fields.get("digest"), fields.get("size")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise InvalidInput(f"the image has a part without a sha256 digest: {str(digest)[:80]!r}")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise InvalidInput(f"the image's part {digest} has no size")
    platform = as_object(fields.get("platform") or {}, "a platform of the image")
    notes = as_object(fields.get("annotations") or {}, "the image's annotations")
    architecture = platform.get("architecture")
    return _Descriptor(
        digest,
        size,
        is_index=fields.get("mediaType") in _INDEX_TYPES,
        architecture=architecture if isinstance(architecture, str) else None,
        variant=str(platform.get("variant", "")),
        label=ascii(notes.get("org.opencontainers.image.ref.name", digest))[:80],
    )
