"""That no words on the command line, and no damage to a journal, give anything but a sentence."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.cli.exit_codes import ExitCode
from unit.cli.conftest import Call
from unit.cli.past import FILE, make_run

COMMANDS = ["runs", "show", "verify", "prove", "export", "reindex"]
POLICY = ["check", "explain", "test", "replay", "learn", "schema"]
OPTIONS = [
    *("--json", "--step", "--only", "--kind", "--limit", "--after", "--all", "--since", "--agent"),
    *("--format", "-o", "--key", "--head", "--save-head", "--closed", "--blobs", "--exec", "-h"),
    *("--tool", "--args", "--action", "--spent", "--stage", "--fail-on", "--sarif", "--http"),
    *("--connect", "--dns", "--model", "--code", "--file-read", "--force"),
]
VALUES = [
    *("r", "last", ".", "..", "/", "-", "--", "0", "1", "-1", "{}", "[]", "null", "paddock.yaml"),
    *("out", "jsonl", "csv", "otel", "har", "blocked", "exec", "a=1", "1h", "é", ""),
    *("x" * 300, "\udcff", "/dev/null", "/proc/version", "home/keys/journal.pub", "proof.json"),
]
words = st.lists(st.one_of(st.sampled_from(OPTIONS), st.sampled_from(VALUES)), max_size=5)
commands = st.one_of(
    st.sampled_from(COMMANDS).map(lambda name: [name]),
    st.sampled_from(POLICY).map(lambda name: ["policy", name]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(commands, words)
def test_any_words_end_with_a_code_and_a_sentence(
    home: Path, call: Call, tmp_path: Path, command: list[str], more: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        if not (home / "runs").exists():
            make_run(home, "r")
            Path("paddock.yaml").write_text(FILE)
            call("prove", "r", "--step", "1", "-o", "proof.json")
        said = call(*command, *more)
    assert said.code in (0, 1, 2, 3)
    assert said.code == 0 or said.err or said.out
    if said.code and said.err:
        assert said.err.startswith(("paddock: ", "usage: "))


@pytest.mark.parametrize("seed", range(12))
def test_damaged_journal_ends_with_a_code_and_a_sentence(
    seed: int, home: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("paddock.yaml").write_text(FILE)
    path = make_run(home, "r") / "000001.jsonl"
    content = bytearray(path.read_bytes())
    chance = random.Random(seed)
    for _ in range(chance.choice([1, 5, 50])):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content[: chance.choice([len(content), len(content) // 2])])
    for line in (["runs"], ["show", "r"], ["show", "r", "--step", "1"], ["show", "r", "--json"],
                 ["verify", "r"], ["prove", "r", "--step", "1"], ["export", "r", "--format", "csv"],
                 ["export", "r", "--format", "otel"], ["export", "r", "--format", "har"],
                 ["export", "r", "--format", "jsonl"], ["reindex"], ["policy", "learn", "r"],
                 ["policy", "replay", "paddock.yaml", "r"]):  # fmt: skip
        said = call(*line)
        assert said.code in (0, 1, 2, ExitCode.INTERRUPTED), line
        assert said.code == 0 or said.err.startswith("paddock: ") or line[0] == "verify"
