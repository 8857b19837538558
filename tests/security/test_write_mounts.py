"""A `write` mount gives a directory to the agent, but not the paddock file in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from paddock import Sandbox
from paddock.model.errors import CannotEnforce

FILE = """version: 1
agent: a
stage: observe
secrets:
  TOKEN: {from: {command: [./tools/token.sh]}, to: [a.example]}
world: {a.example: payments}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    (place / "conf" / "deep").mkdir(parents=True)
    (place / "tools").mkdir()
    (place / "tools" / "token.sh").write_text("good")
    (place / "tools" / "other.sh").write_text("good")
    (place / "paddock.yaml").write_text(FILE)
    return place


def mounted(project: Path) -> dict[str, str]:
    return {"source": str(project), "target": "/w", "mode": "write"}


ATTACKS = """cd /w
echo evil > paddock.yaml; echo evil >> paddock.yaml; rm -f paddock.yaml; mv paddock.yaml x
echo evil > new; mv -f new paddock.yaml; ln -f new paddock.yaml; ln paddock.yaml second
echo evil > second; cp -f new paddock.yaml; truncate -s 0 paddock.yaml; chmod 777 paddock.yaml
touch -d 2001-01-01 paddock.yaml
echo evil > tools/token.sh; mv tools elsewhere; mkdir -p tools; mv tools/token.sh y; rm -rf tools
python3 -c 'import os; os.rename("/w/tools", "/w/elsewhere")'; umount /w/paddock.yaml; true
"""


@pytest.mark.parametrize("nested", [False, True])
def test_paddock_file_and_what_it_names_are_read_only(project: Path, nested: bool) -> None:
    file = project / "paddock.yaml"
    if nested:
        file = project / "conf" / "deep" / "agent.yaml"
        shutil.move(project / "paddock.yaml", file)
        shutil.move(project / "tools", project / "conf" / "deep" / "tools")
    script = ATTACKS
    if nested:
        script = script.replace("paddock.yaml", "conf/deep/agent.yaml")
        script = script.replace("tools", "conf/deep/tools")
        script += "mv conf other; mv conf/deep other; mkdir -p conf/deep\n"
        script += "echo evil > conf/deep/agent.yaml\n"
    before = file.stat()
    with Sandbox.create(file, mounts=[mounted(project)], trust=True) as box:
        box.commands.run(f"({script}) 2>/dev/null; echo fine > /w/fine; echo new > /w/conf/new")
        assert box.files.read("/w/fine") == "fine\n"
    assert file.read_text() == FILE
    assert (file.parent / "tools" / "token.sh").read_text() == "good"
    assert (file.stat().st_mode, file.stat().st_mtime) == (before.st_mode, before.st_mtime)
    assert (project / "fine").read_text() == "fine\n"
    assert (project / "conf" / "new").read_text() == "new\n"
    # What it does not name is the agent's.
    assert not (file.parent / "tools" / "other.sh").exists()


def test_package_that_a_command_starts_is_read_only(project: Path) -> None:
    file = project / "paddock.yaml"
    file.write_text(FILE.replace("./tools/token.sh", "python3, -m, tools"))
    (project / "tools" / "__main__.py").write_text("good")
    with Sandbox.create(file, mounts=[mounted(project)], trust=True) as box:
        box.commands.run("cd /w; (mv tools x; rm -rf tools; echo evil > tools/__main__.py; true)")
    assert (project / "tools" / "__main__.py").read_text() == "good"


@pytest.mark.parametrize(
    "command",
    [
        "[python3, ./tools]",
        "[sh, -c, 'exec $PWD/tools/token.sh']",
        "[sh, -c, 'cd tools; ./token.sh']",
    ],
)
def test_code_is_read_only_however_a_command_names_it(project: Path, command: str) -> None:
    file = project / "paddock.yaml"
    file.write_text(FILE.replace("[./tools/token.sh]", command))
    (project / "tools" / "sub").mkdir()
    (project / "tools" / "sub" / "token.sh").write_text("good")
    (project / "tools" / "__main__.py").write_text("good")
    with Sandbox.create(file, mounts=[mounted(project)], trust=True) as box:
        box.commands.run("cd /w; mv tools x; rm -rf tools; mkdir tools; true")
        box.commands.run("echo evil > /w/tools/json.py; true")
        box.commands.run("cd /w; (for f in tools/*; do echo evil > $f; done; true) 2>/dev/null")
    assert (project / "tools" / "token.sh").read_text() == "good"
    if "$PWD" not in command:  # it names the directory
        assert (project / "tools" / "__main__.py").read_text() == "good"
        assert not (project / "tools" / "json.py").exists()


def test_directory_that_a_command_runs_is_not_mounted_for_writing_alone(project: Path) -> None:
    file = project / "paddock.yaml"
    file.write_text(FILE.replace("[./tools/token.sh]", "[python3, ./tools]"))
    with pytest.raises(CannotEnforce, match="tools"):
        Sandbox.create(file, mounts=[mounted(project / "tools")], trust=True)


def test_link_above_a_named_file_refuses_the_mount(project: Path) -> None:
    (project / "tools").rename(project / "shared")
    (project / "tools").symlink_to("shared")
    with pytest.raises(CannotEnforce, match="link"):
        Sandbox.create(project / "paddock.yaml", mounts=[mounted(project)], trust=True)


def test_paddock_file_at_the_top_of_a_mount_is_read_only_without_a_policy(project: Path) -> None:
    with Sandbox.create(mounts=[mounted(project)]) as box:
        box.commands.run("echo evil > /w/paddock.yaml; echo evil > /w/tools/token.sh; true")
        fork = box.fork()
        fork.commands.run("rm -f /w/paddock.yaml; true")
        fork.kill()
    assert (project / "paddock.yaml").read_text() == FILE
    assert (project / "tools" / "token.sh").read_text() == "good"


@pytest.mark.parametrize("way", ["link", "hard link"])
def test_paddock_file_with_another_way_to_it_refuses_the_mount(project: Path, way: str) -> None:
    file = project / "paddock.yaml"
    if way == "link":
        file.rename(project / "conf" / "agent.yaml")
        file.symlink_to("conf/agent.yaml")
    else:
        os.link(file, project / "second")
    with pytest.raises(CannotEnforce, match="link"):
        Sandbox.create(mounts=[mounted(project)])


@pytest.mark.parametrize("name", ["paddock.yaml", "tools/token.sh"])
def test_paddock_file_is_not_mounted_for_writing_alone(project: Path, name: str) -> None:
    mount = {"source": str(project / name), "target": "/w", "mode": "write"}
    with pytest.raises(CannotEnforce, match="write mount"):
        Sandbox.create(project / "paddock.yaml", mounts=[mount], trust=True)
