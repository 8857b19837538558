"""An agent that refunds a charge, and the project that it lives in. No test lives here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

AGENT = """\
import json, os, subprocess, sys, urllib.parse, urllib.request

def call(path, **fields):
    data = urllib.parse.urlencode(fields).encode()
    headers = {"Authorization": f"Bearer {os.environ.get('KEY', 'sk_test')}"}
    request = urllib.request.Request("https://api.stripe.com" + path, data, headers)
    return json.load(urllib.request.urlopen(request, timeout=20))

charge = call("/v1/charges", amount=1200, currency="usd", source="tok_visa")
refund = call("/v1/refunds", charge=charge["id"])
os.makedirs("out", exist_ok=True)
with open("ticket.txt") as ticket, open("out/report.md", "w") as report:
    report.write(f"refunded {refund['amount']}: {ticket.read()}")
subprocess.run(["sh", "-c", "/bin/echo from below"], check=True)
print("done")
"""
FILE = """\
version: 1
agent: support
stage: narrow
world: {api.stripe.com: payments}
rules:
  - {id: inside, match: {kind: [exec, file, code]}, decide: allow}
"""
SCENARIO = """\
version: 1
name: refund
agent: [python3, agent.py]
files: {ticket.txt: "the cup was broken"}
timeout: 60s
"""
_TIMEOUT_S = 100


def project(place: Path) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    (place / "agent.py").write_text(AGENT)
    (place / "paddock.yaml").write_text(FILE)
    return place


def pytest_in(
    place: Path, *words: str, home: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """pytest in a process of its own, with our plugin and no others."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if home is not None:
        environment["PADDOCK_HOME"] = str(home)
    command = [sys.executable, "-m", "pytest", "-p", "paddock.pytest_plugin", "-q",
               "-p", "no:cacheprovider", "--rootdir", str(place), *words, str(place)]  # fmt: skip
    return subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S
    )
