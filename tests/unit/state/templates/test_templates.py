"""What becomes of an image: the right files, and none of them outside the root file system."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import stat
import sys
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.model.errors import (
    Conflict,
    HostCannot,
    IntegrityError,
    InvalidInput,
    NotFound,
    PaddockError,
)
from paddock.state.templates._image import host_architecture
from paddock.state.templates.layer_archive import UnpackLimits
from paddock.state.templates.store import TemplateStore

Member = tuple[str, Any]


class Dir(int):
    """A directory with this mode."""


class Link(str):
    """A symbolic link to this target."""


class Hard(str):
    """A hard link to this member."""


class Special(bytes):
    """A member of this raw tar type."""


def tar_of(members: Iterable[Member], *, mode: int = 0o644) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, what in members:
            info = tarfile.TarInfo(name)
            info.mode, info.mtime = mode, 1_600_000_000
            content = None
            match what:
                case Dir():
                    info.type, info.mode = tarfile.DIRTYPE, int(what)
                case Link():
                    info.type, info.linkname = tarfile.SYMTYPE, str(what)
                case Hard():
                    info.type, info.linkname = tarfile.LNKTYPE, str(what)
                case Special():
                    info.type = bytes(what)
                case _:
                    content = what.encode() if isinstance(what, str) else what
                    info.size = len(content)
            tar.addfile(info, io.BytesIO(content) if content is not None else None)
    return buffer.getvalue()


def put_blob(root: Path, content: bytes, **more: Any) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    (root / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    (root / "blobs" / "sha256" / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content), **more}


def put_json(root: Path, value: Any, **more: Any) -> dict[str, Any]:
    return put_blob(root, json.dumps(value).encode(), **more)


def put_manifest(
    root: Path, layers: list[bytes], architecture: str | None = None, **more: Any
) -> dict[str, Any]:
    config: dict[str, Any] = {
        "architecture": architecture or host_architecture(),
        "os": "linux",
        "config": {"Env": ["PATH=/bin", "X=a=b", "bad"], "WorkingDir": "/srv"},
        "rootfs": {"type": "layers", "diff_ids": []},
    }
    manifest = {
        "schemaVersion": 2,
        "config": put_json(root, config),
        "layers": [put_blob(root, layer) for layer in layers],
    }
    return put_json(root, manifest, **more)


def put_index(root: Path, manifests: list[dict[str, Any]]) -> Path:
    (root / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (root / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))
    return root


def layout(root: Path, layers: list[bytes]) -> Path:
    root.mkdir()
    return put_index(root, [put_manifest(root, layers)])


def docker_save(root: Path, layers: list[bytes], *, is_legacy: bool) -> Path:
    """The directory of what `docker save` puts into its tar."""
    root.mkdir()
    diff_ids = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    config = json.dumps(
        {
            "architecture": host_architecture(),
            "config": {"Env": ["A=1"]},
            "rootfs": {"diff_ids": diff_ids},
        }
    ).encode()
    digest = hashlib.sha256(config).hexdigest()
    if is_legacy:
        names, config_name = [], f"{digest}.json"
        (root / config_name).write_bytes(config)
        for number, layer in enumerate(layers):
            directory = root / hashlib.sha256(b"%d" % number).hexdigest()
            directory.mkdir()
            (directory / "layer.tar").write_bytes(layer)
            names.append(f"{directory.name}/layer.tar")
    else:
        names = [f"blobs/sha256/{diff[7:]}" for diff in diff_ids]
        for layer in layers:
            put_blob(root, layer)
        config_name = f"blobs/sha256/{put_blob(root, config)['digest'][7:]}"
    entry = {"Config": config_name, "RepoTags": ["x:1"], "Layers": names}
    (root / "manifest.json").write_text(json.dumps([entry]))
    return root


def tar_directory(directory: Path, target: Path, mode: str = "w") -> Path:
    with tarfile.open(target, mode) as tar:  # type: ignore[call-overload]
        for path in sorted(directory.iterdir()):
            tar.add(path, path.name)
    return target


@pytest.fixture
def store(tmp_path: Path) -> TemplateStore:
    return TemplateStore(tmp_path / "store")


@pytest.fixture
def unpack(tmp_path: Path, store: TemplateStore) -> Callable[..., Path]:
    """Unpacks layers, given as lists of members, and gives the root file system."""

    def run(*layers: list[Member], name: str = "t") -> Path:
        source = layout(tmp_path / f"layout-{name}", [tar_of(layer) for layer in layers])
        return store.add(source, name=name).rootfs

    return run


BASE: list[Member] = [
    ("etc/", Dir(0o755)),
    ("etc/passwd", "root"),
    ("usr/", Dir(0o755)),
    ("usr/bin/", Dir(0o755)),
    ("usr/bin/sh", "#!"),
    ("bin", Link("usr/bin")),
]


def sources(tmp_path: Path, layers: list[bytes]) -> dict[str, Path]:
    plain = layout(tmp_path / "oci", layers)
    made = {
        "oci directory": plain,
        "oci tar": tar_directory(plain, tmp_path / "oci.tar"),
        "oci tar.gz": tar_directory(plain, tmp_path / "oci.tar.gz", "w:gz"),
        "oci tar.xz": tar_directory(plain, tmp_path / "oci.tar.xz", "w:xz"),
    }
    for is_legacy in (True, False):
        name = "legacy" if is_legacy else "blobs"
        saved = docker_save(tmp_path / name, layers, is_legacy=is_legacy)
        made[f"docker {name}"] = tar_directory(saved, tmp_path / f"{name}.tar")
        made[f"docker {name} bz2"] = tar_directory(saved, tmp_path / f"{name}.tar.bz2", "w:bz2")
        made[f"docker {name} directory"] = saved
    return made


def test_every_kind_of_source_gives_the_same_root_file_system(
    store: TemplateStore, tmp_path: Path, describe: Callable[..., Any]
) -> None:
    layers = [tar_of(BASE), tar_of([("etc/.wh.passwd", ""), ("etc/new", "n" * 10_000)])]
    seen = []
    for number, (kind, source) in enumerate(sources(tmp_path, layers).items()):
        template = store.add(source, name=f"t{number}")
        seen.append(describe(template.rootfs, times=True))
        assert (template.rootfs / "etc/new").read_text() == "n" * 10_000, kind
        assert store.get(f"t{number}") == template
    assert all(one == seen[0] for one in seen)
    assert len(store.list()) == len(seen)


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["plain", "gz", "bz2", "xz"]
)
def test_plain_root_file_system_tar_is_recognised(
    store: TemplateStore, tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    content = pack(tar_of([("./", Dir(0o755)), *((f"./{name}", what) for name, what in BASE)]))
    (tmp_path / "rootfs.tar").write_bytes(content)
    template = store.add(tmp_path / "rootfs.tar", name="t")
    assert (template.rootfs / "etc/passwd").read_text() == "root"
    assert os.readlink(template.rootfs / "bin") == "usr/bin"
    assert template.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert (template.env, template.workdir) == ((), "/")


def test_root_file_system_with_names_of_an_image_is_still_one(
    store: TemplateStore, tmp_path: Path
) -> None:
    members = [("blobs/x", "1"), ("manifest.json", '{"a": 1}'), *BASE]
    (tmp_path / "rootfs.tar").write_bytes(tar_of(members))
    rootfs = store.add(tmp_path / "rootfs.tar", name="t").rootfs
    assert sorted(os.listdir(rootfs)) == ["bin", "blobs", "etc", "manifest.json", "usr"]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_layers_may_be_compressed(
    store: TemplateStore, tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    half = len(tar_of(BASE)) // 2
    layer = pack(tar_of(BASE)[:half]) + pack(tar_of(BASE)[half:])
    rootfs = store.add(layout(tmp_path / "oci", [layer]), name="t").rootfs
    assert (rootfs / "etc/passwd").read_text() == "root"


def test_zstd_works_or_says_what_to_install(store: TemplateStore, tmp_path: Path) -> None:
    raw = tar_of([("f", "zstd")])
    # One frame with one raw block: valid zstd without a compressor.
    header = b"\x28\xb5\x2f\xfd" + bytes([0b10100000]) + len(raw).to_bytes(4, "little")
    block = (len(raw) << 3 | 1).to_bytes(3, "little") + raw
    source = layout(tmp_path / "oci", [header + block])
    try:
        rootfs = store.add(source, name="t").rootfs
    except HostCannot as error:
        assert "zstandard" in str(error)
        assert not {"zstandard", "compression.zstd"} & sys.modules.keys()
        assert os.listdir(tmp_path / "store") == [".lock"]
    else:
        assert (rootfs / "f").read_text() == "zstd"


def test_config_gives_environment_and_directory(store: TemplateStore, tmp_path: Path) -> None:
    template = store.add(layout(tmp_path / "oci", [tar_of(BASE)]), name="t")
    assert template.env == (("PATH", "/bin"), ("X", "a=b"))
    assert template.workdir == "/srv"
    index = json.loads((tmp_path / "oci" / "index.json").read_text())
    assert template.digest == index["manifests"][0]["digest"]


def test_whiteout_removes_the_file_of_a_lower_layer(unpack: Callable[..., Path]) -> None:
    rootfs = unpack(BASE, [("etc/.wh.passwd", "")])
    assert os.listdir(rootfs / "etc") == []


def test_whiteout_removes_a_directory_with_all_in_it(unpack: Callable[..., Path]) -> None:
    rootfs = unpack(BASE, [(".wh.usr", ""), ("sub/.wh.missing", "")])
    assert sorted(os.listdir(rootfs)) == ["bin", "etc"]


@pytest.mark.parametrize("is_first", [True, False])
def test_whiteout_and_new_file_of_one_layer_leave_the_new_file(
    unpack: Callable[..., Path], is_first: bool
) -> None:
    new: list[Member] = [("usr/", Dir(0o755)), ("usr/new", "n")]
    whiteout: list[Member] = [(".wh.usr", "")]
    rootfs = unpack(BASE, whiteout + new if is_first else new + whiteout)
    assert os.listdir(rootfs / "usr") == ["new"]


@pytest.mark.parametrize("is_first", [True, False])
def test_opaque_directory_hides_lower_layers_only(
    unpack: Callable[..., Path], is_first: bool
) -> None:
    opaque: list[Member] = [("usr/.wh..wh..opq", "")]
    new: list[Member] = [("usr/bin/mine", "m"), ("usr/lib/", Dir(0o755))]
    rootfs = unpack(BASE, opaque + new if is_first else new + opaque)
    assert sorted(os.listdir(rootfs / "usr")) == ["bin", "lib"]
    assert os.listdir(rootfs / "usr/bin") == ["mine"]


def test_hard_link_to_a_file_of_a_lower_layer_shares_it(unpack: Callable[..., Path]) -> None:
    rootfs = unpack(BASE, [("usr/bin/dash", Hard("usr/bin/sh")), ("d", Hard("/bin/sh"))])
    inodes = {os.stat(rootfs / name).st_ino for name in ("usr/bin/sh", "usr/bin/dash", "d")}
    assert len(inodes) == 1


def test_empty_layer_changes_nothing(unpack: Callable[..., Path]) -> None:
    assert sorted(os.listdir(unpack([], BASE, []))) == ["bin", "etc", "usr"]


def test_hard_link_to_itself_changes_nothing(unpack: Callable[..., Path]) -> None:
    rootfs = unpack(BASE, [("etc/passwd", Hard("etc/passwd"))])
    assert (rootfs / "etc/passwd").read_text() == "root"


def test_later_layer_may_change_what_a_name_is(unpack: Callable[..., Path]) -> None:
    rootfs = unpack(
        BASE,
        [
            ("etc", "now a file"),
            ("usr/bin/sh/", Dir(0o755)),
            ("usr/bin/sh/x", "x"),
            ("bin/", Dir(0o755)),
        ],
        [("etc", Link("usr")), ("usr/bin/sh", Link("../x")), ("bin", "file")],
    )
    assert os.readlink(rootfs / "etc") == "usr"
    assert os.readlink(rootfs / "usr/bin/sh") == "../x"
    assert (rootfs / "bin").read_text() == "file"


def test_file_below_what_was_a_file_makes_it_a_directory(unpack: Callable[..., Path]) -> None:
    rootfs = unpack(BASE, [("etc/passwd/inner", "i")])
    assert (rootfs / "etc/passwd/inner").read_text() == "i"


def test_write_through_a_link_lands_where_the_image_means_it(unpack: Callable[..., Path]) -> None:
    rootfs = unpack(BASE, [("bin/ls", "ls"), ("lib", Link("/usr/lib")), ("lib/a/b.so", "so")])
    assert (rootfs / "usr/bin/ls").read_text() == "ls"
    assert (rootfs / "usr/lib/a/b.so").read_text() == "so"
    assert os.readlink(rootfs / "bin") == "usr/bin"


def escapes(outside: Path) -> dict[str, list[list[Member]]]:
    """Ways to reach a directory of the host."""
    up = "../" * 40
    relative = f"{up}{str(outside).lstrip('/')}"
    return {
        "absolute link": [[("a", Link(str(outside))), ("a/victim", "x")]],
        "link of a lower layer": [[("a", Link(str(outside)))], [("a/victim", "x")]],
        "relative link": [[("a", Link(relative)), ("a/victim", "x")]],
        "link over a directory": [[("a/", Dir(0o755))], [("a", Link(relative)), ("a/victim", "x")]],
        "chain of links": [
            [("a", Link("b")), ("b", Link("/c")), ("c", Link(relative))],
            [("a/victim", "x")],
        ],
        "link in the middle": [[("a", Link(str(outside.parent)))], [("a/outside/victim", "x")]],
        "file over a link": [[("a", Link(f"{outside}/victim")), ("a", "x")]],
        "hard link through a link": [[("a", Link(str(outside))), ("b", Hard("a/victim"))]],
        "hard link to a link": [[("a", Link(f"{outside}/victim")), ("b", Hard("a")), ("b", "x")]],
        "directory mode through a link": [[("a", Link(str(outside))), ("a/", Dir(0o777))]],
        "whiteout through a link": [[("a", Link(str(outside)))], [("a/.wh.victim", "")]],
        "opaque through a link": [[("a", Link(str(outside)))], [("a/.wh..wh..opq", "")]],
        "parent in a name": [[(f"{relative}/victim", "x")]],
        "parent in the middle": [[("x/", Dir(0o755)), (f"x/../{relative}/victim", "x")]],
        "parent in a hard link": [[("b", Hard(f"{relative}/victim"))]],
        "absolute name": [[(f"{outside}/victim", "x")]],
        "absolute hard link": [[("b", Hard(f"{outside}/victim"))]],
        "whiteout of the parent": [[(".wh...", "")]],
        "whiteout of itself": [[(".wh..", "")]],
        "whiteout of nothing": [[(".wh.", "")]],
        "link loop": [[("a", Link("b")), ("b", Link("a")), ("a/victim", "x")]],
    }


@pytest.mark.parametrize("trick", escapes(Path("/x/outside")))
def test_no_member_reaches_the_host(
    unpack: Callable[..., Path], tmp_path: Path, trick: str, describe: Callable[..., Any]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    (outside / "victim").write_text("untouched")
    before = (describe(outside), outside.stat().st_mode, (outside / "victim").stat().st_nlink)
    try:
        unpack(*escapes(outside)[trick])
    except PaddockError:
        assert os.listdir(tmp_path / "store") == [".lock"]
    after = (describe(outside), outside.stat().st_mode, (outside / "victim").stat().st_nlink)
    assert after == before


def test_link_to_the_outside_then_file_lands_inside(
    unpack: Callable[..., Path],
) -> None:
    rootfs = unpack([("a", Link("/etc"))], [("a/passwd", "theirs")])
    assert (rootfs / "etc/passwd").read_text() == "theirs"


def test_names_that_are_no_text_are_kept(unpack: Callable[..., Path]) -> None:
    name = os.fsdecode(b"caf\xe9\n")
    rootfs = unpack([(name, "x")])
    assert os.listdir(os.fsencode(rootfs)) == [b"caf\xe9\n"]


def test_modes_are_the_images_own_but_for_setuid_and_reading_by_the_owner(
    store: TemplateStore, tmp_path: Path
) -> None:
    members: list[Member] = [("ro/", Dir(0o555)), ("ro/f", "x"), ("closed/", Dir(0))]
    layers = [tar_of([*members, ("closed/f", "y"), ("tmp/", Dir(0o7777))], mode=0o4011)]
    rootfs = store.add(layout(tmp_path / "oci", layers), name="t").rootfs

    def mode(name: str) -> int:
        return stat.S_IMODE(os.lstat(rootfs / name).st_mode)

    assert {name: mode(name) for name in ("", "ro", "closed", "tmp", "ro/f")} == {
        "": 0o755,
        "ro": 0o555,
        "closed": 0o400,
        "tmp": 0o1777,
        "ro/f": 0o411,
    }
    store.remove("t")
    assert not rootfs.exists()


def test_umask_does_not_close_implied_directories(
    unpack: Callable[..., Path], tmp_path: Path
) -> None:
    old = os.umask(0o077)
    try:
        rootfs = unpack([("a/b/c", "x")])
    finally:
        os.umask(old)
    for path in (rootfs.parent, rootfs, rootfs / "a", rootfs / "a/b"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert stat.S_IMODE((rootfs / "a/b/c").stat().st_mode) == 0o644


def test_devices_are_left_out_and_counted(store: TemplateStore, tmp_path: Path) -> None:
    members: list[Member] = [
        ("dev/null", Special(tarfile.CHRTYPE)),
        ("dev/sda", Special(tarfile.BLKTYPE)),
        ("dev/pipe", Special(tarfile.FIFOTYPE)),
    ]
    template = store.add(layout(tmp_path / "oci", [tar_of(members)]), name="t")
    assert os.listdir(template.rootfs / "dev") == ["pipe"]
    assert template.skipped_devices == 2


def test_files_keep_their_times(unpack: Callable[..., Path]) -> None:
    assert (unpack(BASE) / "etc/passwd").stat().st_mtime == 1_600_000_000


def test_sparse_file_of_an_archive_keeps_its_bytes_in_place(
    store: TemplateStore, tmp_path: Path
) -> None:
    sparse_map = b"2\n0\n3\n1000\n2\n".ljust(512, b"\0")
    info = tarfile.TarInfo("sparse")
    info.size = len(sparse_map) + 5
    info.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "sparse",
        "GNU.sparse.realsize": "2000",
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info, io.BytesIO(sparse_map + b"abcde"))
        tar.addfile(tarfile.TarInfo("after"))
    rootfs = store.add(layout(tmp_path / "oci", [buffer.getvalue()]), name="t").rootfs
    assert (rootfs / "sparse").read_bytes() == b"abc" + bytes(997) + b"de" + bytes(998)
    assert (rootfs / "after").exists()


@pytest.mark.parametrize(
    ("limits", "members"),
    [
        (UnpackLimits(max_bytes=1000), [("a", "x" * 600), ("b", "x" * 600)]),
        (UnpackLimits(max_entries=3), [(f"f{n}", "") for n in range(4)]),
    ],
)
def test_bounds_hold_over_all_layers(
    tmp_path: Path, limits: UnpackLimits, members: list[Member]
) -> None:
    store = TemplateStore(tmp_path / "store", limits=limits)
    source = layout(tmp_path / "oci", [tar_of([member]) for member in members])
    with pytest.raises(InvalidInput, match="more than"):
        store.add(source, name="t")
    assert os.listdir(tmp_path / "store") == [".lock"]


def test_compression_bomb_is_stopped_early(tmp_path: Path) -> None:
    store = TemplateStore(
        tmp_path / "store", limits=UnpackLimits(max_bytes=1 << 20, max_entries=10)
    )
    source = layout(tmp_path / "oci", [gzip.compress(tar_of([("a", bytes(64 << 20))]))])
    with pytest.raises(InvalidInput, match="more than"):
        store.add(source, name="t")
    (tmp_path / "bomb").write_bytes(gzip.compress(tar_of([("blobs/a", bytes(64 << 20))])))
    with pytest.raises(InvalidInput, match="more than"):
        store.add(tmp_path / "bomb", name="t")


def sparse_layer(name: str, size: int) -> bytes:
    """A file of that length without any data."""
    sparse_map = b"0\n".ljust(512, b"\0")
    info = tarfile.TarInfo(f"GNUSparseFile.0/{name}")
    info.size = len(sparse_map)
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
                        "GNU.sparse.name": name, "GNU.sparse.realsize": str(size)}  # fmt: skip
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info, io.BytesIO(sparse_map))
    return buffer.getvalue()


def test_a_small_image_does_not_unpack_to_gigabytes(store: TemplateStore, tmp_path: Path) -> None:
    header = tarfile.TarInfo("zeros")
    header.size = 3 << 30
    layers = {
        "one large file": [header.tobuf() + bytes(1024)],
        "a sparse file": [sparse_layer("holes", 3 << 30)],
        "one layer many times": [sparse_layer("holes", 300 << 20)] * 4,
    }
    for name, parts in layers.items():
        source = layout(tmp_path / name, parts)
        with pytest.raises(InvalidInput, match="more than 1GiB") as caught:
            store.add(source, name="t")
        assert "--max-size" in str(caught.value)
    trusted = UnpackLimits.for_source(source, max_bytes=2 << 30)
    assert store.add(source, name="t", limits=trusted).size_bytes == 4 * (300 << 20)


def test_limits_follow_what_an_image_takes_on_disk(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(bytes(1000))
    assert UnpackLimits.for_source(image) == UnpackLimits(1 << 30, 200_000)
    os.truncate(image, 1 << 40)  # a hole is no image
    assert UnpackLimits.for_source(image).max_bytes == 1 << 30
    with image.open("wb") as file:
        file.write(os.urandom(1 << 20) * 64)
    assert UnpackLimits.for_source(image) == UnpackLimits(20 * (64 << 20), (64 << 20) // 256)
    assert UnpackLimits.for_source(image, max_bytes=5, max_entries=6) == UnpackLimits(5, 6)


def huge_header() -> bytes:
    """A member whose extended header claims to be 64 MiB long."""
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 64 << 20
    return info.tobuf() + bytes(64 << 20) + bytes(1024)


def nested_long_names() -> bytes:
    """Long-name headers that describe each other, deeper than Python recurses."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1
    return (info.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(512, b"\0")) * 3000


def negative_size() -> bytes:
    """A size that would send a reader back to where it came from."""
    raw = bytearray(tarfile.TarInfo("f").tobuf(tarfile.GNU_FORMAT))
    raw[124:136] = b"\xff" + b"\xff" * 9 + b"\xfe\x00"
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw[:512])
    return bytes(raw) + bytes(1024)


@pytest.mark.parametrize(
    "layer",
    [
        b"",
        b"not a tar" * 200,
        tar_of(BASE)[:1500],
        tar_of([("a", "x" * 5000)])[:2048],
        tar_of([("a", "x"), ("b", "y")])[:2048] + b"garbage!" * 64,
        gzip.compress(tar_of(BASE))[:-20],
        bz2.compress(tar_of(BASE))[:-20],
        lzma.compress(tar_of(BASE))[:-20],
        lzma.compress(tar_of(BASE), preset=9)[:10] + b"\xff" * 500,
        huge_header(),
        nested_long_names(),
        negative_size(),
    ],
    ids=lambda layer: f"{len(layer)} bytes",
)
@pytest.mark.parametrize("is_image", [True, False])
def test_damaged_archive_is_refused_and_leaves_nothing(
    store: TemplateStore, tmp_path: Path, layer: bytes, is_image: bool
) -> None:
    source = tmp_path / "source"
    if is_image:
        layout(source, [layer])
    else:
        source.write_bytes(layer)
    with pytest.raises(InvalidInput):
        store.add(source, name="t")
    assert os.listdir(tmp_path / "store") == [".lock"]


def test_layer_that_does_not_match_its_digest_is_refused(
    store: TemplateStore, tmp_path: Path
) -> None:
    layer = tar_of(BASE)
    source = layout(tmp_path / "oci", [layer])
    blob = source / "blobs/sha256" / hashlib.sha256(layer).hexdigest()
    blob.write_bytes(layer.replace(b"root", b"toor"))
    with pytest.raises(IntegrityError, match=blob.name):
        store.add(source, name="t")
    blob.write_bytes(layer + b"more")
    with pytest.raises(IntegrityError, match="bytes"):
        store.add(source, name="t")
    blob.write_bytes(bytes(len(layer) - 1) + b"x")
    with pytest.raises(IntegrityError, match=blob.name):
        store.add(source, name="t")
    blob.unlink()
    with pytest.raises(InvalidInput, match="lacks"):
        store.add(source, name="t")
    assert os.listdir(tmp_path / "store") == [".lock"]


def test_manifest_or_config_that_does_not_match_its_digest_is_refused(
    store: TemplateStore, tmp_path: Path
) -> None:
    source = layout(tmp_path / "oci", [tar_of(BASE)])
    for blob in (source / "blobs/sha256").iterdir():
        content = blob.read_bytes()
        if not content.startswith(b"{"):
            continue
        for changed in (content.replace(b"{", b"[", 1), content + b" "):
            blob.write_bytes(changed)
            with pytest.raises((IntegrityError, InvalidInput)):
                store.add(source, name="t")
        blob.write_bytes(content.replace(b"PATH=/bin", b"PATH=/bad").replace(b'2, "', b'3, "'))
        with pytest.raises(IntegrityError):
            store.add(source, name="t")
        blob.write_bytes(content)
    store.add(source, name="t")


@pytest.mark.parametrize("is_legacy", [True, False])
def test_docker_layer_that_does_not_match_the_config_is_refused(
    store: TemplateStore, tmp_path: Path, is_legacy: bool
) -> None:
    saved = docker_save(tmp_path / "saved", [tar_of(BASE)], is_legacy=is_legacy)
    (name,) = json.loads((saved / "manifest.json").read_text())[0]["Layers"]
    (saved / name).write_bytes(tar_of([("evil", "x")]))
    with pytest.raises(IntegrityError):
        store.add(tar_directory(saved, tmp_path / "saved.tar"), name="t")
    assert os.listdir(tmp_path / "store") == [".lock"]


def test_docker_layer_stored_as_a_link_to_another_is_found(
    store: TemplateStore, tmp_path: Path
) -> None:
    layer = tar_of(BASE)
    saved = docker_save(tmp_path / "saved", [layer, layer], is_legacy=True)
    first, second = json.loads((saved / "manifest.json").read_text())[0]["Layers"]
    (saved / second).unlink()
    (saved / second).symlink_to(f"../{first}")
    template = store.add(tar_directory(saved, tmp_path / "saved.tar"), name="t")
    assert (template.rootfs / "etc/passwd").read_text() == "root"


def test_image_for_this_machine_is_chosen_out_of_several(
    store: TemplateStore, tmp_path: Path
) -> None:
    root = tmp_path / "oci"
    root.mkdir()
    manifests = [
        put_manifest(root, [tar_of([("who", arch)])], arch, platform={"architecture": arch})
        for arch in (host_architecture(), "s390x", "mips")
    ]
    unknown = {"architecture": "unknown", "os": "unknown"}
    manifests.append(put_manifest(root, [b"attestation"], platform=unknown))
    nested = put_json(
        root,
        {"schemaVersion": 2, "manifests": manifests},
        mediaType="application/vnd.oci.image.index.v1+json",
    )
    template = store.add(put_index(root, [nested]), name="t")
    assert (template.rootfs / "who").read_text() == host_architecture()


def test_image_for_other_machines_only_is_refused_with_their_names(
    store: TemplateStore, tmp_path: Path
) -> None:
    root = tmp_path / "oci"
    root.mkdir()
    listed = put_manifest(root, [tar_of([])], "s390x", platform={"architecture": "s390x"})
    unlisted = put_manifest(root, [tar_of([("x", "x")])], "mips")
    put_index(root, [listed, unlisted])
    with pytest.raises(HostCannot, match="mips, s390x"):
        store.add(root, name="t")


def test_several_images_in_one_source_are_refused(store: TemplateStore, tmp_path: Path) -> None:
    root = tmp_path / "oci"
    root.mkdir()
    name = "org.opencontainers.image.ref.name"
    put_index(
        root,
        [
            put_manifest(root, [tar_of([(tag, "x")])], annotations={name: tag})
            for tag in ("one", "two")
        ],
    )
    with pytest.raises(InvalidInput, match=r"one.*two"):
        store.add(root, name="t")


@pytest.mark.parametrize(
    "index",
    [
        "[]",
        "{}",
        "nonsense",
        '{"manifests": 5}',
        '{"manifests": []}',
        '{"manifests": [5]}',
        '{"manifests": [{"digest": "sha256:../../../etc/passwd", "size": 1}]}',
        '{"manifests": [{"digest": "md5:00", "size": 1}]}',
        '{"manifests": [{"digest": "sha256:%s", "size": -1}]}' % ("0" * 64),
        '{"manifests": [{"digest": "sha256:%s", "size": 1}]}' % ("0" * 64),
        "[" * 100_000,
    ],
)
def test_malformed_index_is_refused(store: TemplateStore, tmp_path: Path, index: str) -> None:
    source = layout(tmp_path / "oci", [tar_of(BASE)])
    (source / "index.json").write_text(index)
    with pytest.raises((InvalidInput, HostCannot)):
        store.add(source, name="t")


def test_links_in_a_layout_directory_are_not_followed(store: TemplateStore, tmp_path: Path) -> None:
    source = layout(tmp_path / "oci", [tar_of(BASE)])
    (source / "blobs").rename(tmp_path / "elsewhere")
    (source / "blobs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput):
        store.add(source, name="t")


def test_name_that_is_taken_is_a_conflict(store: TemplateStore, tmp_path: Path) -> None:
    source = layout(tmp_path / "oci", [tar_of(BASE)])
    store.add(source, name="t")
    with pytest.raises(Conflict):
        store.add(source, name="t")
    store.remove("t")
    store.add(source, name="t")


@pytest.mark.parametrize("name", ["host", "../x", "", ".new-1", "a/b", "a\0", "x" * 200])
def test_bad_name_is_refused(store: TemplateStore, tmp_path: Path, name: str) -> None:
    for call in (store.get, store.remove):
        with pytest.raises(InvalidInput):
            call(name)
    with pytest.raises(InvalidInput):
        store.add(tmp_path, name=name)


def test_unknown_template_is_not_found(store: TemplateStore) -> None:
    for call in (store.get, store.remove):
        with pytest.raises(NotFound):
            call("t")
    assert store.list() == []


def test_source_that_is_nothing_of_the_kind_is_refused(
    store: TemplateStore, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", "empty", "pipe"):
        with pytest.raises(InvalidInput):
            store.add(tmp_path / name, name="t")


def test_what_a_crashed_add_left_is_swept_by_the_next(store: TemplateStore, tmp_path: Path) -> None:
    left = tmp_path / "store" / ".new-0123"
    (left / "rootfs" / "ro").mkdir(parents=True)
    (left / "rootfs" / "ro" / "f").write_text("x")
    (left / "rootfs" / "ro").chmod(0o555)
    store.add(layout(tmp_path / "oci", [tar_of(BASE)]), name="t")
    assert not left.exists()
    assert [template.name for template in store.list()] == ["t"]


def test_damaged_record_is_an_integrity_error(store: TemplateStore, tmp_path: Path) -> None:
    store.add(layout(tmp_path / "oci", [tar_of(BASE)]), name="t")
    (tmp_path / "store/t/template.json").write_text('{"name": "t"}')
    with pytest.raises(IntegrityError):
        store.get("t")
    assert store.list() == []


# The examples work on real files, and a busy disk is no fault of theirs.
SLOW_DISK = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
names = st.sampled_from(["a", "b", "c"])
leaves = st.one_of(st.binary(max_size=3), st.just(None))  # None is a whiteout
# The key "" makes a directory opaque.
layer_trees = st.recursive(
    st.dictionaries(names, leaves, max_size=3),
    lambda inner: st.dictionaries(
        st.one_of(names, st.just("")), st.one_of(leaves, inner), max_size=4
    ),
    max_leaves=8,
)


def members_of(tree: dict[str, Any], prefix: str = "") -> list[Member]:
    found: list[Member] = []
    for name, what in tree.items():
        if not name:
            found.append((f"{prefix}.wh..wh..opq", ""))
        elif what is None:
            found.append((f"{prefix}.wh.{name}", ""))
        elif isinstance(what, dict):
            found.append((f"{prefix}{name}/", Dir(0o755)))
            found += members_of(what, f"{prefix}{name}/")
        else:
            found.append((f"{prefix}{name}", what))
    return found


def overlaid(lower: dict[str, Any], layer: dict[str, Any]) -> dict[str, Any]:
    """What the layer makes of what is below it, as the specification says."""
    shown = {} if "" in layer else dict(lower)
    for name, what in layer.items():
        if not name:
            continue
        if what is None:
            shown.pop(name, None)
        elif isinstance(what, dict):
            below = shown.get(name)
            shown[name] = overlaid(below if isinstance(below, dict) else {}, what)
        else:
            shown[name] = what
    return shown


def as_tree(root: Path) -> dict[str, Any]:
    return {
        path.name: as_tree(path) if path.is_dir() else path.read_bytes() for path in root.iterdir()
    }


@settings(suppress_health_check=SLOW_DISK)
@given(layers=st.lists(layer_trees, min_size=1, max_size=3), data=st.data())
def test_layers_in_any_order_of_members_give_what_the_specification_says(
    tmp_path: Path, layers: list[dict[str, Any]], data: st.DataObject
) -> None:
    place = tmp_path / os.urandom(8).hex()
    place.mkdir()
    archives: list[bytes] = []
    expected: dict[str, Any] = {}
    for layer in layers:
        archives.append(tar_of(data.draw(st.permutations(members_of(layer)))))
        expected = overlaid(expected, layer)
    store = TemplateStore(place / "store")
    assert as_tree(store.add(layout(place / "oci", archives), name="t").rootfs) == expected
