"""Journals that nobody recorded: records of a real run, changed at random and chained anew, so that
every reader gets past the hashes to what the records say."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from paddock.journal.codec import body_of
from paddock.journal.integrity.heads import sign_head
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.records import NOTHING_BEFORE, Chain
from paddock.journal.segments import segment_name

Json = Any
ODD: tuple[Json, ...] = (
    None, True, 0, -1, 1.5, 10**30, -(10**30), 1e308, 2**53, "", "x", "\x1b[2J\r=1+1", "\ud800",
    "\u202e\u2028", "../../etc/passwd", "a" * 3000, [], {}, [[]], [None, 1], {"": None},
    {"a": {"b": []}}, "9" * 5000, ["x"] * 300, "https://[", "%zz", "\x00", "2026-13-45T99:99:99Z",
)  # fmt: skip
TYPES = ("opened", "proposed", "decided", "asked", "answered", "settled", "observed", "noted",
         "head", "recovered", "closed", "unheard", "configured", "alert", "files_recorded",
         "program_started", "program_ended", "world_changed", "memory_changed")  # fmt: skip


def records_of(directory: Path) -> list[dict[str, Json]]:
    """The records of a journal, without its heads."""
    lines = (directory / segment_name(1)).read_bytes().splitlines()
    found = [json.loads(line) for line in lines]
    return [one for one in found if one["type"] != "head"]


def crafted(records: list[dict[str, Json]], chance: random.Random) -> list[dict[str, Json]]:
    """The same records with some changes: values, types, missing parts, depth, order."""
    made: list[dict[str, Json]] = json.loads(json.dumps(records))
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        record = chance.choice(made)
        match chance.randrange(10):
            case 0:
                record["type"] = chance.choice(TYPES)
            case 1:
                record["at"] = chance.choice((0, 10**17, 10**22, 2**63, 253402300800 * 10**6))
            case 2:
                record["step"] = chance.choice((0, 1, 2, 10**15, None))
            case 3:
                made.insert(chance.randrange(len(made)), json.loads(json.dumps(record)))
            case 4 if len(made) > 2:
                made.remove(record)
            case 5:
                record["blobs"] = chance.choice(
                    ([{}], [{"form": "text", "path": "/x", "sha256": "0" * 64, "size_bytes": 1}],
                     [{"form": 1, "path": 1, "sha256": 1, "size_bytes": "x"}])
                )  # fmt: skip
            case _:
                _change_value(record["body"], chance)
    return made


def _change_value(body: Json, chance: random.Random) -> None:
    """Walks down to some place and puts something else there, or takes it away."""
    place = body
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = chance.choice(keys)
        below = place[key]
        if isinstance(below, dict | list) and below and chance.random() < 0.7:
            place = below
            continue
        if chance.random() < 0.25:
            del place[key]
        elif chance.random() < 0.1:
            place[key] = _deep(chance.choice((50, 900)))
        else:
            place[key] = chance.choice(ODD)
        return


def _deep(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def write_journal(directory: Path, records: list[dict[str, Json]], key: SigningKey | None) -> None:
    """Puts these records there as one chain; with a key under heads, as this home would sign."""
    chain, lines = Chain(), []
    run = str(records[0]["body"].get("run")) if isinstance(records[0]["body"], dict) else ""
    for number, record in enumerate(records):
        lines.append(_line(chain, record))
        if key is not None and (number == 0 or number == len(records) - 1):
            head = sign_head(key, run=run, size=chain.size, root=chain.tree.root(), at=1,
                             steps=chain.steps)  # fmt: skip
            lines.append(_line(chain, {"at": 1, "body": body_of(head), "type": "head"}))
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.jsonl"):
        old.unlink()
    (directory / segment_name(1)).write_bytes(b"".join(line + b"\n" for line in lines))


def _line(chain: Chain, record: dict[str, Json]) -> bytes:
    """By hand: the writer would refuse most of this. Keys are in the order of the format."""
    parts = [f'"after":"{(chain.last or NOTHING_BEFORE).decode()}"']
    for name in ("at", "blobs", "body"):
        if name in record:
            parts.append(f'"{name}":{json.dumps(record[name])}')
    parts.append(f'"n":{chain.size}')
    if record.get("step") is not None:
        parts.append(f'"step":{record["step"]}')
    parts.append(f'"type":"{record["type"]}"')
    line = ("{" + ",".join(parts) + "}").encode()
    chain.follow(line)
    return line
