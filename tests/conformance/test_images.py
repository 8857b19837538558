"""Images as people have them: added once, and then a root like any other."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from conformance.conftest import MakeBox
from conformance.test_templates import rootfs  # noqa: F401 - a fixture
from paddock import InvalidInput
from paddock.state.home import Home, new_id
from paddock.state.templates.store import TemplateStore


@pytest.fixture
def store() -> TemplateStore:
    return TemplateStore(Home.find().templates)


def _second_layer() -> bytes:
    """Takes a program away and adds a file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in (("bin/.wh.stty", b""), ("hello", b"from the second layer\n")):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def _first_layer(root: Path) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.add(root, arcname=".")
    return made.getvalue()


def _docker_save(root: Path, target: Path) -> Path:
    layers = {"1/layer.tar": _first_layer(root), "2/layer.tar": _second_layer()}
    digests = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers.values()]
    config = {"os": "linux", "config": {"Env": ["FOO=bar", "PATH=/bin"]}, "rootfs": {}}
    config["rootfs"] = {"type": "layers", "diff_ids": digests}
    manifest = [{"Config": "c.json", "RepoTags": ["x:1"], "Layers": list(layers)}]
    files = {"manifest.json": json.dumps(manifest).encode(), "c.json": json.dumps(config).encode()}
    with tarfile.open(target, "w") as archive:
        for name, content in {**files, **layers}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return target


def test_image_of_docker_save_is_a_root_with_its_environment_and_its_deletions(
    make_box: MakeBox,
    store: TemplateStore,
    rootfs: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    name = f"image-{new_id()}"
    store.add(_docker_save(rootfs, tmp_path / "image.tar"), name=name)
    box = make_box(template=name)
    assert box.commands.run("cat /hello; echo $FOO").stdout == "from the second layer\nbar\n"
    assert "stty" not in box.commands.run("ls /bin").stdout.split()
    assert box.files.read("/opt/data") == "of the template"
    assert box.run_code("6 * 7").text == "42"
    with box.fork() as child:
        assert child.commands.run("cat /hello").stdout == "from the second layer\n"


def test_tar_that_holds_no_root_is_refused(
    make_box: MakeBox, store: TemplateStore, tmp_path: Path
) -> None:
    (tmp_path / "notes").write_text("x")
    with tarfile.open(tmp_path / "notes.tar", "w") as archive:
        archive.add(tmp_path / "notes", arcname="notes")
    name = f"notes-{new_id()}"
    store.add(tmp_path / "notes.tar", name=name)
    with pytest.raises(InvalidInput, match="no root file system"):
        make_box(template=name)
