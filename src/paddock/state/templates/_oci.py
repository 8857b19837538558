"""The OCI image layout: which manifest is for this machine, and the layers that it names.

Every part but `index.json` itself is named by a descriptor, and is used only if it has that
digest and size. Layers are checked by whoever unpacks them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, TypeVar

import msgspec

from paddock.model.errors import IntegrityError, InvalidInput
from paddock.state.templates._image import (
    Digest,
    Image,
    ImageConfig,
    ImageLayer,
    check_part,
    host_architecture,
    image_of,
    read_json,
    refuse_architecture,
)
from paddock.state.templates._image_files import ImageFiles

_MAX_INDEX_DEPTH, _MAX_MANIFESTS = 4, 1000
_INDEX_TYPES = frozenset(
    {
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    }
)
T = TypeVar("T")
_NAME = "org.opencontainers.image.ref.name"


class _Platform(msgspec.Struct, frozen=True):
    architecture: str | None = None
    variant: str = ""


class _Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the image by digest and size."""

    digest: Digest
    size: Annotated[int, msgspec.Meta(ge=0)]
    media_type: str | None = None
    platform: _Platform | None = None
    annotations: dict[str, str] | None = None

    @property
    def name(self) -> str:
        return f"blobs/sha256/{self.digest.removeprefix('sha256:')}"

    @property
    def architecture(self) -> str | None:
        return None if self.platform is None else self.platform.architecture

    @property
    def variant(self) -> str:
        return "" if self.platform is None else self.platform.variant

    @property
    def label(self) -> str:
        return ascii((self.annotations or {}).get(_NAME, self.digest))[:80]


class _Index(msgspec.Struct, frozen=True):
    manifests: list[_Descriptor]


class _Manifest(msgspec.Struct, frozen=True):
    config: _Descriptor
    layers: list[_Descriptor]


def read_layout(files: ImageFiles) -> Image:
    """Return the image for this machine out of a layout."""
    index, _ = read_json(files, "index.json", _Index)
    chosen = _choose(files, list(_manifests(files, index, _MAX_INDEX_DEPTH)))
    manifest = _read_part(files, chosen, _Manifest)
    layers = (ImageLayer(part.name, part.size, part.digest) for part in manifest.layers)
    config = _read_part(files, manifest.config, ImageConfig)
    return image_of(config, chosen.digest, tuple(layers))


def _manifests(files: ImageFiles, index: _Index, depth: int) -> Iterator[_Descriptor]:
    """Yield all manifests below an index; indexes may be nested."""
    if depth == 0:
        raise InvalidInput("the image's indexes are nested too deeply")
    if len(index.manifests) > _MAX_MANIFESTS:
        raise InvalidInput(f"an index of the image lists more than {_MAX_MANIFESTS} manifests")
    for descriptor in index.manifests:
        if descriptor.media_type in _INDEX_TYPES:
            yield from _manifests(files, _read_part(files, descriptor, _Index), depth - 1)
        elif descriptor.architecture != "unknown":  # what build attestations say
            yield descriptor


def _choose(files: ImageFiles, manifests: list[_Descriptor]) -> _Descriptor:
    host = host_architecture()
    different = {part.digest: part for part in manifests}.values()
    architectures = [part.architecture or _config_says(files, part) for part in different]
    pairs = zip(different, architectures, strict=True)
    fitting = [part for part, architecture in pairs if architecture in (host, None)]
    if not fitting:
        raise refuse_architecture(set(map(str, architectures)))
    # Without a variant, or with the lowest, it runs on every machine of the architecture.
    lowest = min(part.variant for part in fitting)
    best = [part for part in fitting if part.variant == lowest]
    if len(best) == 1:
        return best[0]
    labels = ", ".join(sorted(part.label for part in best)[:8])
    raise InvalidInput(
        f"the source holds {len(best)} images: {labels}", hint="save only one of them"
    )


def _config_says(files: ImageFiles, descriptor: _Descriptor) -> str | None:
    """Return the architecture in the config, for a manifest that is listed without its platform."""
    manifest = _read_part(files, descriptor, _Manifest)
    return _read_part(files, manifest.config, ImageConfig).architecture or None


def _read_part(files: ImageFiles, descriptor: _Descriptor, kind: type[T]) -> T:
    window = files.open(descriptor.name)
    if window is not None:
        window.close()
        if window.size != descriptor.size:
            raise IntegrityError(
                f"the image's {descriptor.name!r} has {window.size} bytes, not {descriptor.size}",
                hint="it was changed or damaged; save or pull it again",
            )
    value, digest = read_json(files, descriptor.name, kind)
    check_part(descriptor.name, digest, descriptor.digest)
    return value
