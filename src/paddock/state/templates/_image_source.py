"""The kinds of files that a template can be made of, told apart by looking, and unpacked.

An OCI layout (a directory or a tar of it), an archive of `docker save`, or a tar that is itself
the root file system; tars may be compressed. How each is read lives in its own module.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from paddock.model.errors import IntegrityError, InvalidInput
from paddock.model.sizes import format_size
from paddock.state.templates._decompression import (
    CHUNK_BYTES,
    DAMAGE,
    ByteSource,
    Window,
    decompressed,
)
from paddock.state.templates._docker_save import is_docker_save, read_docker_save
from paddock.state.templates._image import Image, ImageLayer, check_part
from paddock.state.templates._image_files import (
    DirectoryFiles,
    ImageFiles,
    TarFiles,
    looks_like_image,
)
from paddock.state.templates._oci import read_layout
from paddock.state.templates._tar_stream import TarStream
from paddock.state.templates.layer_archive import Unpacker, UnpackLimits


def unpack_source(source: Path, unpacker: Unpacker, limits: UnpackLimits, scratch: Path) -> Image:
    """Unpack whatever `source` is; `scratch` is a private directory for a decompressed copy."""
    if source.is_dir():
        files = DirectoryFiles(source.resolve())
        image = find_image(files)
        if image is None:
            raise InvalidInput(
                f"{source} is no OCI image layout: it has no oci-layout and index.json",
                hint="a plain root file system needs no adding: use template='dir:/its/path'",
            )
        return _unpack_image(files, image, unpacker, limits)
    fd = _open_regular(source)
    try:
        return _unpack_tar(fd, source, unpacker, limits, scratch)
    finally:
        os.close(fd)


def find_image(files: ImageFiles) -> Image | None:
    """Return the image for this machine, or None where the files are no saved image at all."""
    if _has(files, "oci-layout") and _has(files, "index.json"):
        return read_layout(files)
    return read_docker_save(files) if is_docker_save(files) else None


def _unpack_tar(
    fd: int, source: Path, unpacker: Unpacker, limits: UnpackLimits, scratch: Path
) -> Image:
    what, size = source.name, os.fstat(fd).st_size
    with Window(os.dup(fd), 0, size, is_hashed=False) as window:
        plain = decompressed(window)
        is_packed = plain is not window
        stream = TarStream(plain, what=what, max_bytes=limits.max_stream_bytes)
        may_be_image = looks_like_image(member.name for member in stream.members())
    if may_be_image:
        plain_fd = _spool(fd, what, limits, scratch) if is_packed else os.dup(fd)
        try:
            files = TarFiles.index(plain_fd, what)
            image = find_image(files)
            if image is not None:
                return _unpack_image(files, image, unpacker, limits)
        finally:
            os.close(plain_fd)
    with Window(os.dup(fd), 0, size) as window:
        stream = TarStream(decompressed(window), what=what, max_bytes=limits.max_stream_bytes)
        unpacker.apply(stream)
        unpacker.finish()
        return Image(window.digest(), ())


def _unpack_image(
    files: ImageFiles, image: Image, unpacker: Unpacker, limits: UnpackLimits
) -> Image:
    for layer in image.layers:
        window = files.open(layer.name)
        if window is None:
            raise InvalidInput(f"the image lacks its layer {layer.name[:120]!r}")
        with window:
            _unpack_layer(window, layer, unpacker, limits)
    unpacker.finish()
    return image


def _unpack_layer(
    window: Window, layer: ImageLayer, unpacker: Unpacker, limits: UnpackLimits
) -> None:
    """Unpack a layer and check its digest. The digest is taken of the very bytes that are unpacked:
    a look beforehand could have seen others. So what is unpacked here is worth nothing until this
    function returns."""
    if layer.size is not None and window.size != layer.size:
        raise IntegrityError(
            f"the image's layer {layer.name[:120]!r} has {window.size} bytes, not {layer.size}",
            hint="it was changed or damaged; save or pull it again",
        )
    stream = TarStream(
        decompressed(window),
        what=f"layer {layer.name[:120]!r}",
        max_bytes=limits.max_stream_bytes,
        is_hashed=layer.diff_id is not None,
    )
    try:
        unpacker.apply(stream)
    finally:
        # Also when unpacking failed: a wrong digest is then the better explanation.
        if layer.digest is not None:
            check_part(layer.name, window.digest(), layer.digest)
    if layer.diff_id is not None:
        check_part(layer.name, stream.digest(), layer.diff_id)


def _spool(fd: int, what: str, limits: UnpackLimits, scratch: Path) -> int:
    """Return a decompressed copy without a name: the layers lie at offsets that must be gone to."""
    with (
        tempfile.TemporaryFile(dir=scratch) as copy,
        Window(os.dup(fd), 0, os.fstat(fd).st_size, is_hashed=False) as window,
    ):
        source, size = decompressed(window), 0
        while chunk := _read(source, what):
            size += len(chunk)
            if size > limits.max_bytes:
                raise InvalidInput(
                    f"{what} unpacks to more than {format_size(limits.max_bytes)}",
                    hint="if you trust it, add it with a larger --max-size",
                )
            copy.write(chunk)
        copy.flush()
        return os.dup(copy.fileno())


def _read(source: ByteSource, what: str) -> bytes:
    try:
        return source.read(CHUNK_BYTES)
    except DAMAGE as error:
        raise InvalidInput(f"{what} is damaged: {error}") from None


def _open_regular(source: Path) -> int:
    try:
        # The caller's own path: a link in it is the caller's wish. O_NONBLOCK: it may be a FIFO.
        fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidInput(f"cannot read {source}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise InvalidInput(f"{source} is neither a file nor a directory")
    return fd


def _has(files: ImageFiles, name: str) -> bool:
    window = files.open(name)
    if window is None:
        return False
    window.close()
    return True
