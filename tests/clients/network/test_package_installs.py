"""pip and npm, installing from an index and a registry on the host over https."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import zipfile

import pytest

from clients.network.conftest import WITHOUT_PROXY, MakeBox, MakeSite
from clients.network.crossings import requests, seen
from clients.network.inside import shell
from clients.network.site import Answer, Asked
from paddock import CommandExitException

PROXIED = pytest.mark.parametrize("envs", [{}, WITHOUT_PROXY], ids=["proxy", "redirect"])
WHEEL = "paddock_greeting-1.0-py3-none-any.whl"
NO_INSTALL = """
rules:
  - id: no-new-packages
    match: {kind: http, host: pypi.example, path: "/files/**"}
    decide: block
    why: Dependencies are pinned.
"""


def _wheel() -> bytes:
    info = "paddock_greeting-1.0.dist-info"
    files = {
        "paddock_greeting.py": "WORDS = 'good morning'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: paddock-greeting\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


def _tarball() -> bytes:
    files = {
        "package/package.json": json.dumps({"name": "paddock-greeting", "version": "1.0.0"}),
        "package/index.js": "module.exports = 'good evening';\n",
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


WHEEL_BYTES, TARBALL_BYTES = _wheel(), _tarball()


def index(asked: Asked) -> Answer:
    """A simple index with one project."""
    if asked.path == "/simple/paddock-greeting/":
        digest = hashlib.sha256(WHEEL_BYTES).hexdigest()
        page = f'<!DOCTYPE html><a href="/files/{WHEEL}#sha256={digest}">{WHEEL}</a>'
        return Answer(200, page.encode(), {"Content-Type": "text/html"})
    if asked.path == f"/files/{WHEEL}":
        return Answer(200, WHEEL_BYTES, {"Content-Type": "application/octet-stream"})
    return Answer(404)


def registry(asked: Asked) -> Answer:
    """An npm registry with one package."""
    if asked.path == "/paddock-greeting":
        digest = base64.b64encode(hashlib.sha512(TARBALL_BYTES).digest()).decode()
        tarball = "https://npm.example/files/paddock-greeting-1.0.0.tgz"
        dist = {"tarball": tarball, "integrity": f"sha512-{digest}"}
        version = {"name": "paddock-greeting", "version": "1.0.0", "dist": dist}
        return Answer.of(
            {
                "name": "paddock-greeting",
                "dist-tags": {"latest": "1.0.0"},
                "versions": {"1.0.0": version},
            }
        )
    if asked.path == "/files/paddock-greeting-1.0.0.tgz":
        return Answer(200, TARBALL_BYTES, {"Content-Type": "application/octet-stream"})
    return Answer(404)


PIP = (
    "python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir --retries 0"
    " --index-url https://pypi.example/simple/ --target wanted paddock-greeting"
)


@PROXIED
def test_pip_installs_from_an_index(
    make_box: MakeBox, make_site: MakeSite, envs: dict[str, str]
) -> None:
    box = make_box({"pypi.example:443": make_site(index, "pypi.example").place})
    shell(box, PIP, envs)
    said = shell(box, "cd wanted && python3 -c 'import paddock_greeting as p; print(p.WORDS)'")
    assert said == "good morning\n"
    assert [seen(one) for one in requests(box)] == [
        ("pypi.example", "GET", "/simple/paddock-greeting/", 200, "allow"),
        ("pypi.example", "GET", f"/files/{WHEEL}", 200, "allow"),
    ]


def test_pip_says_why_a_package_may_not_be_installed(
    make_box: MakeBox, make_site: MakeSite
) -> None:
    box = make_box({"pypi.example:443": make_site(index, "pypi.example").place}, NO_INSTALL)
    with pytest.raises(CommandExitException) as failed:
        box.commands.run(PIP, timeout=60)
    assert "403" in failed.value.stderr
    last = requests(box)[-1]
    assert (last.request[1], last.verdict, last.rule) == (
        f"/files/{WHEEL}", "block", "no-new-packages",
    )  # fmt: skip


@PROXIED
def test_npm_installs_from_a_registry(
    make_box: MakeBox, make_site: MakeSite, envs: dict[str, str]
) -> None:
    box = make_box({"npm.example:443": make_site(registry, "npm.example").place})
    install = "npm install --no-audit --no-fund --no-update-notifier --fetch-retries=0"
    shell(box, f"{install} --registry=https://npm.example/ paddock-greeting", envs)
    said = shell(box, "node -e \"console.log(require('paddock-greeting'))\"")
    assert said == "good evening\n"
    assert [seen(one) for one in requests(box)] == [
        ("npm.example", "GET", "/paddock-greeting", 200, "allow"),
        ("npm.example", "GET", "/files/paddock-greeting-1.0.0.tgz", 200, "allow"),
    ]
    assert box.alerts() == []
