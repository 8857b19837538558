"""Lists in a terminal of 80 columns: no line of the widest content that is real is wider."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.cli.render.cells import cells
from paddock.gate.approvals.questions import Approvals
from paddock.gate.run_gate import gate_store
from paddock.model.events import ProgramEnded, ProgramStarted
from paddock.policy.file import load
from paddock.state.home import Home
from unit.cli.commands.test_approvals import ask
from unit.cli.commands.test_net import REFUSED, alert, http, put
from unit.cli.commands.test_world import make_model
from unit.cli.past import FILE, begin_run, command, make_run, proposed, refund, search
from unit.cli.terminals import in_terminal

AGENT = "nightly-customer-support-and-refunds-bot"
RULE = "no-writes-to-production-without-a-person-who-looks"


@pytest.fixture
def wide(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with long names of everything, in a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    policy = load(FILE.replace("support-bot", AGENT).replace("no-installs", RULE))
    argv = ["pip", "install", "--index-url", "https://packages.example.com/simple", "x" * 60]
    actions = [command(*argv), refund(100), search("漢字" * 60), search("everything")] * 3
    began = ProgramStarted("/usr/bin/ls", ["ls", "-l", "y" * 90], pid=7)
    ended = ProgramEnded(pid=7, exit_code=1)
    make_run(home, "vksdrtfazz77", actions, policy=policy, observed={2: [began, ended]})
    make_model(home, "vksdrtfazz77", "z" * 200)
    make_run(home, "8tezvjf8xgm9", actions[:1])
    _network(home)
    store = gate_store(Home.find())
    ask(Approvals(store), customer="c" * 80)
    store.close()
    return home


def _network(home: Path) -> None:
    journal = begin_run(home, "mpz6ap4mttem")
    journal.append(proposed("exec", {"argv": ["curl"]}), 1)
    host = "a-very-long-name.of-a-region.services.example.com"
    request = http(host, method="PROPFIND", path="/v1/customers/" + "p" * 90, body_bytes=123_456)
    block = {"verdict": "block", "decided_by": RULE, "why": f"{host} is not for agents. " * 4}
    put(journal, 1_234, "http", request, REFUSED, block)
    alert(journal, 1_234, "egress.denied.by.the.network.door", host=host, port=443, path="/" * 60)
    journal.close()


@pytest.mark.parametrize(
    ("words", "width"),
    [(words, 80) for words in (
        "runs", "runs --tree", "show vksd", "net mpz6 --blocked", "net mpz6", "drafts list",
        "approvals", "approvals stats", "compare vksd 8tez mpz6", "compare vksd 8tez",
        "doctor --no-tests", "help show", "world list", "world diff vksd",
    )] + [("show vksd", 40)],
)  # fmt: skip
def test_no_line_is_wider_than_the_terminal(
    words: str, width: int, wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown, code = in_terminal(words.split(), tmp_path, wide)

    lines = shown.split("\r\n")
    assert code == 0
    assert len(lines) > 2, shown
    assert max(map(cells, lines)) <= width, "\n".join(one for one in lines if cells(one) > width)
