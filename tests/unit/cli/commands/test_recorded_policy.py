"""The terms of a recorded run are taken from a journal only if this home has signed it."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.cli.agent_run import recorded_policy
from paddock.gate.run_gate import signing_key
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.writer import Journal
from paddock.model.errors import IntegrityError, InvalidInput
from paddock.model.events import Configured, Opened, PolicySource
from paddock.state.home import Home

ASKS = "version: 1\nagent: asks\nstage: observe\ntools: {look: {effect: read}}\n"


def written(directory: Path, key: SigningKey) -> Path:
    journal = Journal.create(directory, opened=Opened(directory.name, "asks"), key=key)
    journal.append(Configured(policy=PolicySource(ASKS)))
    journal.close()
    return directory


def test_only_a_signed_journal_says_what_a_person_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    home = Home.find()
    ours = written(home.runs / "ours", signing_key(home))
    assert recorded_policy(ours).agent == "asks"
    with pytest.raises(InvalidInput, match="somebody else"):
        recorded_policy(written(home.runs / "theirs", SigningKey.open(tmp_path / "keys")))
    segment = ours / "000001.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b"agent: asks", b"agent: ask2"))
    with pytest.raises(IntegrityError):
        recorded_policy(ours)
