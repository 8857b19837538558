"""`scripts/bench`: what it answers and leaves behind. How fast anything is, no test asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import main as bench
from bench.figures import Figure, Limit, alternate, failed, percentile_ms
from bench.report import as_json, as_text
from cases import for_each
from paddock.model.errors import HostCannot

KEYS = {
    *("name", "title", "value", "unit", "n", "note"),
    *("peer", "peer_value", "ratio", "limit", "reached"),
}
ROOT = Path(__file__).parents[3]
HOST: dict[str, Any] = {
    "paddock": "0",
    "python": "3",
    "kernel": "6",
    "cores": 2,
    "cpu": "some",
    "memory_bytes": 1 << 30,
    "user": "root",
    "home_file_system": "ext4",
    "load": 0.5,
    "peers_absent": {"runc": "not installed"},
}


@pytest.fixture
def answer(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A quick run of one figure in a process of its own, and the state directory that it used."""
    home = tmp_path_factory.mktemp("b")  # short: paths of Unix sockets have 107 bytes
    ended = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--json", "--only", "command"],
        cwd=ROOT,
        env={**os.environ, "PADDOCK_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout), home


def test_quick_run_of_one_figure_gives_whole_json_and_leaves_nothing(
    answer: tuple[dict[str, Any], Path],
) -> None:
    report, home = answer
    assert [figure["name"] for figure in report["figures"]] == ["command-list", "command-shell"]
    for figure in report["figures"]:
        assert set(figure) == KEYS
        assert 0 < figure["value"] < 10_000
        assert figure["ratio"] == pytest.approx(figure["value"] / figure["peer_value"], rel=0.01)
        assert figure["reached"] is (figure["ratio"] <= 2)
        assert figure["n"] >= 10
    assert report["host"]["cores"] >= 1
    assert {*report["host"]["peers"], *report["host"]["peers_absent"]} == {
        "bwrap", "runc", "runsc", "srt",
    }  # fmt: skip
    assert list(home.glob("bench-*")) == []
    assert list((home / "sandboxes").iterdir()) == []


def test_unknown_figure_is_refused_and_the_known_ones_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        bench.main(["--only", "command,warp"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "warp" in said
    assert "create-pool" in said


def test_a_figure_that_fails_does_not_take_the_others_with_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    def refuse(_: object) -> list[Figure]:
        raise HostCannot("no such thing here", hint="get one")

    def measure(_: object) -> list[Figure]:
        return [Figure("other", "other", 1.0, "ms")]

    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path))
    figures = {"bad": refuse, "good": measure}
    monkeypatch.setattr(bench, "MEASUREMENTS", figures)
    monkeypatch.setattr(bench, "measurement", figures.__getitem__)
    assert bench.main(["--json", "--only", "bad,good"]) == 1
    bad, good = json.loads(capsys.readouterr().out)["figures"]
    assert (bad["value"], bad["reached"]) == (None, False)
    assert "no such thing here" in bad["note"]
    assert good["value"] == 1.0


def test_automatic_pool_setting_of_the_caller_is_put_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str | None] = []

    def look(_: object) -> list[Figure]:
        seen.append(os.environ.get("PADDOCK_POOL"))
        return []

    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path))
    monkeypatch.setenv("PADDOCK_POOL", "auto")
    monkeypatch.setattr(bench, "MEASUREMENTS", {"look": look})
    monkeypatch.setattr(bench, "measurement", {"look": look}.__getitem__)
    bench.main(["--json", "--only", "look"])
    assert seen == ["0"]
    assert os.environ["PADDOCK_POOL"] == "auto"


@for_each(
    ("value", "peer_value", "limit", "is_reached"),
    [
        (6.0, 2.0, Limit(3, is_ratio=True), True),
        (6.1, 2.0, Limit(3, is_ratio=True), False),
        (97.0, 100.0, Limit(0.98, is_ratio=True, is_floor=True), False),
        (499.0, 100.0, Limit(500, is_floor=True), False),
        (500.0, 9000.0, Limit(500, is_floor=True), True),
        (12.0, None, Limit(12), True),
        (12.1, None, Limit(12), False),
        (12.1, 1.0, None, None),
        (1.0, None, Limit(3, is_ratio=True), False),
    ],
)
def test_limit_is_reached_only_by_what_it_speaks_of(
    value: float, peer_value: float | None, limit: Limit | None, is_reached: bool | None
) -> None:
    peer = None if peer_value is None else "peer"
    figure = Figure("x", "x", value, "ms", 1, peer, peer_value, limit)
    assert figure.is_reached is is_reached


def test_ratio_without_a_peer_is_taken_to_the_limit() -> None:
    assert Figure("x", "x", 6.0, "MiB", limit=Limit(12)).ratio == 0.5


def test_runs_are_taken_in_turns_after_the_warm_up() -> None:
    order: list[str] = []

    def run(name: str, value: float) -> float:
        order.append(name)
        return value

    samples = alternate(2, lambda: run("a", 1.0), lambda: run("b", 2.0))
    assert order == ["a", "b", "a", "b", "a", "b"]
    assert samples == [[1.0, 1.0], [2.0, 2.0]]


def test_percentile_is_a_sample_that_was_really_taken() -> None:
    samples = [number / 1000 for number in range(1, 101)]
    assert percentile_ms(samples, 95) == pytest.approx(95)
    assert percentile_ms([0.007], 95) == pytest.approx(7)


def test_table_for_a_pipe_has_no_escape_codes_and_says_what_is_missed() -> None:
    figures = [
        Figure("fast", "fast thing", 1.0, "ms", 5, "bwrap", 2.0, Limit(3, is_ratio=True)),
        Figure("slow", "slow thing", 90.0, "ms", 5, None, None, Limit(50), "a note"),
        failed("gone", HostCannot("cannot")),
    ]
    text = as_text(HOST, figures, is_coloured=False)
    assert "\033" not in text
    assert "reached: 1 of 3; not reached: slow, gone" in text
    assert "slow: a note" in text
    assert "runc (not installed)" in text
    assert "\033[31m" in as_text(HOST, figures, is_coloured=True)


def test_json_of_a_failed_figure_can_be_read_back() -> None:
    report = json.loads(json.dumps(as_json(HOST, [failed("gone", OSError())])))
    assert report["figures"][0]["note"] == "failed: OSError"
