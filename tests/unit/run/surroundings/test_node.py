"""Node: its versions, the packages of a project, of its workspace, and links among them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.run.surroundings import Surroundings
from unit.run.surroundings.conftest import User, program


def targets(found: Surroundings) -> list[str]:
    return [mount.target for mount in found.mounts[1:]]


def make_node(prefix: Path) -> Path:
    program(prefix / "bin" / "node")
    (prefix / "lib" / "node_modules" / "npm").mkdir(parents=True)
    program(prefix / "lib" / "node_modules" / "npm" / "npx.js", "#!/usr/bin/env node\n")
    (prefix / "bin" / "npx").symlink_to("../lib/node_modules/npm/npx.js")
    return prefix


@pytest.mark.parametrize(
    "place", [".nvm/versions/node/v20.1.0", ".local/share/fnm/node-versions/v20/installation"]
)
def test_node_of_a_version_manager_is_mounted_as_that_version_alone(
    user: User, place: str, run_inside: Callable[..., str]
) -> None:
    prefix = make_node(user.home / place)
    user.put_first_on_path(prefix / "bin")
    found = user.find("node", "agent.js")
    assert targets(found) == [str(prefix)]
    assert run_inside(found) == "ran\n"
    assert targets(user.find("npx", "tool")) == [str(prefix)]


def test_node_behind_a_link_of_a_shell_session_is_found(user: User) -> None:
    prefix = make_node(user.home / ".local/share/fnm/node-versions/v20/installation")
    session = user.home / ".local/state/fnm_multishells/1"
    session.parent.mkdir(parents=True)
    session.symlink_to(prefix)
    user.put_first_on_path(session / "bin")
    assert str(prefix) in targets(user.find("node"))


def test_shim_of_volta_gives_way_to_the_version_that_the_project_pins(user: User) -> None:
    root = user.home / ".volta"
    prefix = make_node(root / "tools/image/node/20.1.0")
    shim = program(root / "bin" / "volta-shim")
    (root / "bin" / "node").symlink_to(shim)
    (user.project / "package.json").write_text(json.dumps({"volta": {"node": "20.1.0"}}))
    user.put_first_on_path(root / "bin")
    assert targets(user.find("node")) == [str(prefix)]


def test_packages_of_a_workspace_and_what_they_link_to_are_mounted(
    user: User, run_inside: Callable[..., str]
) -> None:
    root, inner = user.project, user.project / "packages" / "agent"
    inner.mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "package.json").write_text("{}")
    (root / "packages" / "lib").mkdir()
    (root / "packages" / "lib" / "index.js").write_text("of the workspace")
    (root / "packages" / "lib" / ".env").write_text("SECRET")
    (root / "packages" / "lib" / "package.json").write_text("{}")
    (root / "node_modules" / "@us").mkdir(parents=True)
    (root / "node_modules" / "@us" / "lib").symlink_to("../../packages/lib")
    found = user.find("sh", "-c", "cat ../../node_modules/@us/lib/index.js", cwd=inner)
    assert targets(found) == [str(root / "node_modules"), str(root / "packages" / "lib")]
    assert run_inside(found) == "of the workspace"
    assert found.hidden == (str(root / "packages" / "lib" / ".env"),)


def test_link_among_packages_does_not_bring_keys(user: User) -> None:
    (user.home / ".ssh").mkdir()
    (user.home / "Documents").mkdir()
    for place in (user.home / ".ssh", user.home, user.project):
        (place / "package.json").write_text("{}")
    (user.project / "node_modules").mkdir()
    (user.project / "node_modules" / "documents").symlink_to(user.home / "Documents")
    (user.project / "node_modules" / "keys").symlink_to(user.home / ".ssh")
    (user.project / "node_modules" / "all").symlink_to(user.home)
    assert targets(user.find("true")) == []


def test_program_that_a_package_brings_is_found_after_path(user: User) -> None:
    (user.project / "package.json").write_text("{}")
    program(user.project / "node_modules" / ".bin" / "our-tool")
    found = user.find("our-tool")
    assert found.argv == ("our-tool",)
