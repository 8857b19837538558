"""Sandboxes with real clients in them, and the servers on the host's loopback that they call.

Every name leads to a server of a test by `network.hosts`. No test lives here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clients.network.certificates import ServerAuthority
from clients.network.site import App, Site
from clients.packages import PYTHON, clients
from paddock import Sandbox
from polling import is_readable

MakeBox = Callable[..., Sandbox]
MakeSite = Callable[..., Site]
StartServer = Callable[..., str]
SERVERS = Path(__file__).with_name("servers")
_HEAD = "version: 1\nagent: caller\nstage: broad\napprovals: {timeout: 30s, by: [store]}\n"
_UNPROXIED = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
WITHOUT_PROXY = dict.fromkeys(_UNPROXIED, "")
START_S = 30.0


@pytest.fixture(scope="session")
def packages() -> Path:
    """The clients that do not come with the system."""
    return clients()


@pytest.fixture(scope="session")
def authority() -> Iterator[ServerAuthority]:
    """Signs the servers of the tests."""
    directory = tempfile.mkdtemp(prefix="pdk-")
    yield ServerAuthority(Path(directory))
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def make_box(packages: Path, authority: ServerAuthority) -> Iterator[MakeBox]:
    """Creates sandboxes that end with the file. `sites` has `name:port` and where it is served."""
    made: list[Sandbox] = []

    def make(
        sites: Mapping[str, str],
        rules: str = "",
        passthrough: tuple[str, ...] = (),
        envs: Mapping[str, str] | None = None,
        mounts: tuple[Mapping[str, str], ...] = (),
        **spec: Any,
    ) -> Sandbox:
        network = {
            "allow": list(sites),
            "hosts": {name.rpartition(":")[0]: place for name, place in sites.items()},
            "tls": {"ca": str(authority.file), "passthrough": list(passthrough)},
        }
        mount = {"source": str(packages), "target": "/clients", "mode": "read"}
        box = Sandbox.create(
            policy=_file(authority.directory, rules) if rules else None,
            network=network,
            envs={"PYTHONPATH": "/clients/python", **(envs or {})},
            mounts=[mount, *mounts],
            **spec,
        )
        made.append(box)
        return box

    yield make
    for box in made:
        box.kill()


@pytest.fixture(scope="module")
def make_site(authority: ServerAuthority) -> Iterator[MakeSite]:
    """Starts web servers that end with the file; with `name`, over TLS."""
    made: list[Site] = []

    def make(app: App, name: str | None = None) -> Site:
        made.append(Site(app, None if name is None else authority.context(name)))
        return made[-1]

    yield make
    for site in made:
        site.close()


@pytest.fixture(scope="module")
def start_server(packages: Path) -> Iterator[StartServer]:
    """Starts programs of `servers/` that end with the file; gives `address:port`."""
    running: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: object) -> str:
        command = [PYTHON, str(SERVERS / program), *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(packages / "python")}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        running.append(process)
        assert process.stdout is not None
        readable = is_readable(process.stdout.fileno(), START_S)
        line = process.stdout.readline() if readable else ""
        assert line.strip().isdigit(), f"{program} did not start"
        return f"127.0.0.1:{line.strip()}"

    yield start
    for process in running:
        process.kill()
        process.communicate()


def _file(directory: Path, rules: str) -> Path:
    path = directory / "paddock.yaml"
    path.write_text(_HEAD + rules)
    return path
