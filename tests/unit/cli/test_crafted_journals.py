"""Every command that reads a journal, over journals that nobody recorded: an answer or a sentence,
and never a traceback or a character that a terminal acts on."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from paddock.cli.exit_codes import ExitCode
from paddock.gate.run_gate import signing_key
from paddock.journal.codec import decode
from paddock.model.errors import IntegrityError
from paddock.model.events import (
    Configured,
    FilesRecorded,
    MemoryChanged,
    MountRecorded,
    PolicySource,
    Unknown,
    WorldChanged,
)
from paddock.state.home import Home
from unit.cli.conftest import Call
from unit.cli.crafted import crafted, records_of, write_journal
from unit.run.recorded import FILE, Crossed, agent, ask_model, post, record, refund, search

COMMANDS = (
    ["runs"], ["runs", "--json"], ["runs", "--tree"], ["reindex"],
    ["show", "f"], ["show", "f", "--json"], ["show", "f", "--step", "2"],
    ["show", "f", "--step", "5", "--conversation"],
    ["step", "f"], ["step", "f", "--json"], ["net", "f"], ["net", "f", "--json"],
    ["files", "f"], ["files", "f", "--json"], ["world", "f"], ["world", "f", "--json"],
    ["compare", "f", "base"], ["compare", "base", "f", "--json"],
    ["replay", "f"], ["replay", "f", "--json"], ["replay", "f", "--policy", "paddock.yaml"],
    ["replay", "f", "--agent"], ["fork", "f", "--at", "2"], ["fork", "f", "--at", "99999"],
    ["verify", "f"], ["verify", "f", "--json"], ["prove", "f", "--step", "2"],
    ["export", "f", "--format", "csv"], ["export", "f", "--format", "otel"],
    ["export", "f", "--format", "har"], ["export", "f", "--format", "jsonl"],
    ["policy", "learn", "f"], ["policy", "replay", "paddock.yaml", "f"],
    ["verdicts", "f"], ["verdicts", "f", "--json"],
    ["changes", "f"], ["changes", "f", "--json"], ["apply", "f", "--to", "there", "--yes"],
)  # fmt: skip
ENDS = set(ExitCode) - {ExitCode.INTERRUPTED_BY_USER, ExitCode.KILLED}
CONFIGURED = Configured(
    policy=PolicySource(FILE, name="paddock.yaml"),
    mounts=[MountRecorded("/nonexistent", "/work", "overlay")],
    envs={"KEY": "paddock_KEY_x"},
    timeout_s=60,
    hidden=["/project/.env"],
    vary=["body.id=uuid"],
    beside=["POST a.example/x"],
)
TREE = FilesRecorded("0" * 64, changed=1)
LAST_TREE = FilesRecorded("0" * 64, changed=1, is_last=True)
MOVED = WorldChanged({"api.stripe.com:443": 3})
WHOLE = {"after": "0" * 64, "at": 1, "body": {}, "n": 0, "step": 1, "type": "noted"}
ANSWER = {"status": 200, "headers": {"content-type": "application/json"}, "body": '{"id":"x"}',
          "stand_in": "payments", "timings": {"wait_us": 3}}  # fmt: skip
CROSSED = (
    Crossed(agent("python", "agent.py"), {"exit_code": 0}, before=(CONFIGURED, TREE)),
    Crossed(search("a"), after=(MOVED,)),
    Crossed(refund(5)),
    Crossed(post(amount=5), ANSWER, cost={"usd": 0.1}),
    Crossed(
        ask_model("hi"),
        {**ANSWER, "usage": {"input_tokens": 3}, "model_step": 4},
        before=(TREE,),
        after=(MemoryChanged("a", 1),),
    ),
)


def try_all(seeds: range, home: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "paddock.yaml").write_text(FILE)
    recorded = records_of(record(home, "base", CROSSED, last=(LAST_TREE,)))
    recorded[0]["body"] |= {"run": "f", "cwd": "/nonexistent"}
    place, key = Home(home), signing_key(Home(home))
    for seed in seeds:
        shutil.rmtree(place.runs / "f", ignore_errors=True)
        chance = random.Random(seed)
        write_journal(place.runs / "f", crafted(recorded, chance), key if seed % 3 else None)
        for words in COMMANDS:
            said = call(*words)
            assert said.code in ENDS, (seed, words, said)
            if words[-1] != "jsonl":  # which is byte for byte what the journal has
                shown = "".join((said.out + said.err).split())
                assert shown.isprintable(), (seed, words, ascii(shown[:2000]))


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.timeout(120)
def test_a_crafted_journal_ends_with_a_sentence(home: Path, call: Call, tmp_path: Path) -> None:
    try_all(range(4), home, call, tmp_path)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_many_crafted_journals_end_with_a_sentence(home: Path, call: Call, tmp_path: Path) -> None:
    try_all(range(1000, 1120), home, call, tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"at": 10**18},
        {"at": -1},
        {"body": {"x": "\ud800"}},
        {"body": {"\udfff": 1}},
        {"body": json.loads('{"a":' * 200 + "1" + "}" * 200)},
        {"blobs": [{"form": "text", "path": 1, "sha256": 2, "size_bytes": 3}]},
        {"blobs": [{}]},
        {"blobs": 5},
        {"n": 1 << 60},
        {"step": 1.5},
        {"after": None},
        {"type": []},
        {"body": []},
    ],
)
def test_what_no_writer_writes_is_no_record(change: dict[str, object]) -> None:
    assert decode(json.dumps(WHOLE).encode()).n == 0
    with pytest.raises(IntegrityError):
        decode(json.dumps({**WHOLE, **change}).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"body": {"kind": []}, "type": "proposed"},
        {"body": {"outcome": {}}, "type": "settled"},
        {"body": {"what": []}},
        {"type": "unheard"},
    ],
)
def test_event_that_cannot_be_read_is_an_unknown_one(change: dict[str, object]) -> None:
    assert isinstance(decode(json.dumps({**WHOLE, **change}).encode()).event, Unknown)
