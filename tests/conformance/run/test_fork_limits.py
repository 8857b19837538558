"""A limit of a fork counts what its past spent, whatever the terms of the past were."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from conformance.run.listening import Listening
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.session import FinishedRun, run

PAYING = """\
import urllib.error, urllib.request

for number in range(4):
    head = {"content-type": "application/json"}
    body = b'{"amount": 60, "number": %d}' % number
    request = urllib.request.Request("http://api.test/pay", body, head)
    try:
        print(urllib.request.urlopen(request, timeout=20).status, flush=True)
    except urllib.error.HTTPError as error:
        print(error.code, flush=True)
"""
FILE = """\
version: 1
agent: AGENT
stage: broad
network: {allow: ["api.test:80"], hosts: {api.test: "127.0.0.1:PORT"}}
rules:
  - {id: fine, match: {kind: http}, decide: allow}
  - {id: budget, match: {kind: http}, limit: {count: 1, max: 100, per: run}, decide: block}
"""
LIMIT = """rules=[{id: fine, match: {kind: http}, decide: allow},
{id: NAME, match: {kind: http}, limit: {WORDS}, decide: block}]"""


class Shop(http.server.BaseHTTPRequestHandler):
    """Takes everything."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *words: object) -> None: ...


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedRun]:
    place = tmp_path_factory.mktemp("limits")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop) as shop:
        threading.Thread(target=shop.serve_forever, args=(0.02,), daemon=True).start()
        text = FILE.replace("PORT", str(shop.server_port)).replace("AGENT", place.name)
        (place / "paddock.yaml").write_text(text)
        (place / "agent.py").write_text(PAYING)
        heard = Listening()
        ended = run(order_of(["python3", "agent.py"], cwd=place), heard)
        assert heard.lines == ["200"] * 4
        yield ended
        shop.shutdown()


@pytest.mark.parametrize(
    ("name", "words", "last"),
    [
        ("new-run", "count: 1, max: 3, per: run", "403"),
        ("new-day", "count: 1, max: 3, per: 24h", "403"),
        ("new-wide", "count: 1, max: 4, per: 24h", "200"),
        ("budget", "sum: args.body.amount, max: 239, per: run", "403"),
        ("budget", "sum: args.body.amount, max: 240, per: run", "200"),
        ("budget", "sum: args.body.amount, max: 239, per: 24h", "403"),
    ],
)
def test_limit_of_a_fork_counts_its_past(
    paid: FinishedRun, name: str, words: str, last: str
) -> None:
    step = [row.number for row in RecordedRun(paid.directory).steps if row.kind == "http"][3]
    limit = LIMIT.replace("NAME", name).replace("WORDS", words)
    heard = Listening()
    fork(paid.directory, ForkOptions(step, sets=(limit,)), watch=heard)
    assert heard.lines == ["200", "200", "200", last]
