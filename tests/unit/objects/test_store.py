"""The object store: what is put reads back, what is damaged is refused, a batch comes whole."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from cases import for_each
from paddock.model.errors import IntegrityError
from paddock.objects.store import Framing, ObjectMissing, ObjectStore


def store_at(root: Path, framing: Framing = Framing.RAW) -> ObjectStore:
    return ObjectStore(root / "objects", framing=framing, staging=root / "tmp")


def files_below(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


@pytest.mark.parametrize("framing", list(Framing))
@pytest.mark.parametrize("data", [b"", b"x", b"text " * 2000, bytes(3 << 20), os.urandom(2 << 20)])
def test_bytes_read_back_however_they_were_put(
    tmp_path: Path, framing: Framing, data: bytes
) -> None:
    digest = sha256(data).hexdigest()
    (tmp_path / "file").write_bytes(data)
    for number in range(3):
        store = store_at(tmp_path / str(number), framing)
        if number == 0:
            assert store.put(data) == (digest, True)
            assert store.put(data) == (digest, False)
        elif number == 1:
            assert store.put_chunks([data[:100], data[100:]]) == (digest, len(data))
        else:
            fd = os.open(tmp_path / "file", os.O_RDONLY)
            assert store.put_file(fd, len(data)) == (digest, len(data))
            os.close(fd)
        assert store.read(digest) == data
        assert len(files_below(tmp_path / str(number))) == 1


def test_object_that_was_cut_is_not_there_and_is_written_again(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    digest, _ = store.put(b"whole")
    os.truncate(store.path(digest), 2)
    assert not store.has(digest, 5)
    with pytest.raises(IntegrityError, match="changed"):
        store.read(digest)
    assert store.put(b"whole") == (digest, True)
    assert store.read(digest) == b"whole"


def test_object_that_is_missing_or_no_file_is_refused(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    digest, _ = store.put(b"bytes")
    os.unlink(store.path(digest))
    with pytest.raises(ObjectMissing):
        store.read(digest)
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/hostname", path)):
        make(store.path(digest))
        with pytest.raises(IntegrityError, match="unreadable"):
            store.read(digest)
        (os.rmdir if os.path.isdir(store.path(digest)) else os.unlink)(store.path(digest))


@for_each("digest", ["", "../../etc/passwd", "a" * 63, "/" * 64, "A" * 64, "a" * 64 + "\n"])
def test_name_that_is_no_digest_reaches_no_file(tmp_path: Path, digest: str) -> None:
    with pytest.raises(IntegrityError, match="not the digest"):
        store_at(tmp_path).read(digest)


def test_batch_has_no_names_before_it_is_published(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    with store.batch() as batch:
        digests = [batch.put(f"object {n}".encode())[0] for n in range(40)]
        assert batch.put(b"object 7") == (digests[7], False)
        assert not any(store.has(digest) for digest in digests)
        batch.publish()
    assert [store.read(digest) for digest in digests][7] == b"object 7"
    assert os.listdir(tmp_path / "tmp") == []


def test_batch_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    with pytest.raises(ZeroDivisionError), store.batch() as batch:
        batch.put(b"one")
        batch.put_chunks(str(1 // n).encode() for n in (1, 0))
    assert files_below(tmp_path) == []


def test_durable_store_syncs_every_file_and_every_directory_that_got_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()

    def note(fd: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{fd}"))

    monkeypatch.setattr(os, "fdatasync", note)
    monkeypatch.setattr(os, "fsync", note)
    store = ObjectStore(tmp_path / "blobs", framing=Framing.RAW, is_durable=True)
    paths = [store.path(store.put(f"object {n}".encode())[0]) for n in range(100)]
    store.flush()
    directories = {os.path.dirname(path) for path in paths}
    assert synced == {*paths, *directories, str(tmp_path / "blobs"), str(tmp_path)}
    synced.clear()
    store.flush()
    assert synced == set()


def test_sweep_removes_what_is_not_used_and_what_a_crash_left(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    used, _ = store.put(b"used")
    unused, _ = store.put(b"not used")
    (tmp_path / "tmp" / ".0123").write_bytes(b"half")
    (tmp_path / "tmp" / "of an earlier version").mkdir()
    (tmp_path / "tmp" / "of an earlier version" / "new-1").write_bytes(b"half")
    assert store.sweep({used}, older_than_s=3600) == 0
    assert store.sweep({used}) == len(b"not used") + len(b"half")
    assert [path.name for path in files_below(tmp_path)] == [used]
    assert not store.has(unused)
