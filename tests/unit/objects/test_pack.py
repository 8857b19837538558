"""Packs of small objects: lines that are named by their digests."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from paddock.model.errors import IntegrityError, NotFound
from paddock.objects.pack import Pack, PackReader


def test_lines_are_read_also_while_more_are_written(tmp_path: Path) -> None:
    pack, reader = Pack(tmp_path / "pack"), PackReader(tmp_path / "pack", "object")
    first = pack.put(b"first")
    assert reader.read(first) == b"first"
    second = pack.put(b"second")
    pack.flush()
    assert reader.read(second) == b"second"
    assert reader.read(first) == b"first"
    pack.close()


def test_what_an_interrupted_writer_left_spoils_no_later_line(tmp_path: Path) -> None:
    (tmp_path / "pack").write_bytes(b"whole\nhalf a li")
    pack = Pack(tmp_path / "pack")
    digest = pack.put(b"new")
    pack.close()
    reader = PackReader(tmp_path / "pack", "object")
    assert reader.read(digest) == b"new"
    assert reader.read(sha256(b"whole").hexdigest()) == b"whole"


def test_changed_and_missing_lines_are_refused(tmp_path: Path) -> None:
    pack, reader = Pack(tmp_path / "pack"), PackReader(tmp_path / "pack", "object")
    digest = pack.put(b"bytes")
    pack.close()
    reader.read(digest)
    (tmp_path / "pack").write_bytes(b"other\n")
    with pytest.raises(IntegrityError, match="has been changed"):
        reader.read(digest)
    with pytest.raises(NotFound, match="missing"):
        PackReader(tmp_path / "pack", "object").read(digest)
    with pytest.raises(IntegrityError, match="not the digest"):
        reader.read("../pack")
    os.unlink(tmp_path / "pack")
    with pytest.raises(IntegrityError, match="unreadable"):
        reader.read(digest)
