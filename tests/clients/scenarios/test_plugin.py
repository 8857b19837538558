"""The pytest plugin as its users have it: pytest in a process of its own, agents in sandboxes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clients.scenarios.support import AGENT, FILE, SCENARIO, project, pytest_in

TEST = """\
import pytest

@pytest.mark.paddock(files={"ticket.txt": "the cup was broken"})
def test_refund(paddock):
    result = paddock.run(["python3", "agent.py"], timeout=60)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "from below\\ndone\\n"
    assert result.files["out/report.md"] == "refunded 1200: the cup was broken"
    assert [one["amount"] for one in result.world["api.stripe.com"]["refunds"]] == [1200]
    assert len(result.actions(kind="http", host="api.stripe.com", method="POST")) == 2
    assert not result.alerts and not result.verdicts.verdicts
    assert result.report.steps == len([one for one in result.steps if not one.is_observed])
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose test was run once, where the world is."""
    place = project(tmp_path_factory.mktemp("recorded") / "project")
    (place / "test_refund.py").write_text(TEST)
    ran = pytest_in(place)
    assert ran.returncode == 0, ran.stdout
    return place


@pytest.fixture
def place(recorded: Path, tmp_path: Path) -> Path:
    """A copy of it, elsewhere."""
    copied = tmp_path / "checkout"
    shutil.copytree(recorded, copied)
    return copied


def test_a_recorded_test_passes_elsewhere_without_the_world_or_the_key(
    place: Path, tmp_path: Path
) -> None:
    ran = pytest_in(place, "--paddock-record=none", home=tmp_path / "h")
    assert ran.returncode == 0, ran.stdout
    worlds = tmp_path / "h" / "worlds"
    assert not worlds.exists() or not list(worlds.iterdir())


def test_an_agent_with_another_key_still_follows_its_record(place: Path) -> None:
    test = TEST.replace("timeout=60", 'timeout=60, envs={"KEY": "sk_other"}')
    (place / "test_refund.py").write_text(test)
    ran = pytest_in(place, "--paddock-record=none")
    assert ran.returncode == 0, ran.stdout


def test_an_agent_that_does_something_else_fails_with_both_side_by_side(place: Path) -> None:
    (place / "agent.py").write_text(AGENT.replace("amount=1200", "amount=9900"))
    ran = pytest_in(place, "--paddock-record=once")
    assert ran.returncode == 1, ran.stdout
    assert "recorded" in ran.stdout and "proposed" in ran.stdout
    assert "1200" in ran.stdout and "9900" in ran.stdout
    again = pytest_in(place, "--paddock-record=all", "-vv")  # the test itself expects 1200
    assert "refunded 9900: the cup" in again.stdout


@pytest.mark.parametrize("change", ["file", "command"])
def test_a_record_under_other_terms_is_refused(place: Path, change: str) -> None:
    if change == "file":
        (place / "paddock.yaml").write_text(FILE.replace("narrow", "draft"))
    else:
        (place / "test_refund.py").write_text(TEST.replace('"agent.py"', '"-u", "agent.py"'))
    ran = pytest_in(place, "--paddock-record=once")
    assert ran.returncode == 1
    assert "--paddock-record=all" in ran.stdout


def test_without_a_record_none_runs_nothing(place: Path, tmp_path: Path) -> None:
    shutil.rmtree(place / "paddock_runs")
    ran = pytest_in(place, "--paddock-record=none", home=tmp_path / "h")
    assert ran.returncode == 1
    assert "there is no recorded run" in ran.stdout
    assert not list((tmp_path / "h").glob("runs/*"))
    assert not (place / "paddock_runs").exists()


def test_a_scenario_file_is_a_test_for_each_case(tmp_path: Path) -> None:
    place = project(tmp_path / "project")
    expect = "expect: {world: ['api.stripe.com.refunds.size() == 1'], steps: {max: %d}}\n"
    (place / "paddock_a.yaml").write_text(SCENARIO + "matrix: {seed: [1, 2]}\n" + expect % 40)
    (place / "b.scenario.yaml").write_text(SCENARIO.replace("refund", "few steps") + expect % 1)
    ran = pytest_in(place, "--paddock-record=none", "-vv")
    assert "paddock_a.yaml::refund [seed=1] PASSED" in ran.stdout, ran.stdout
    assert "paddock_a.yaml::refund [seed=2] PASSED" in ran.stdout
    assert "b.scenario.yaml::few steps FAILED" in ran.stdout
    assert "expect.steps: expected at most 1 step" in ran.stdout


def test_a_wrong_scenario_is_an_error_of_collection_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.scenario.yaml").write_text("version: 1\nname: a\nagnt: [a]\n")
    ran = pytest_in(tmp_path)
    assert ran.returncode == 2
    assert "a.scenario.yaml:3:1: agnt: unknown key" in ran.stdout


def test_tests_that_run_at_once_keep_their_records_apart(tmp_path: Path) -> None:
    place = project(tmp_path / "project")
    test = """\
import pytest

@pytest.mark.parametrize("word", ["a", "b", "c/d"])
def test_word(paddock, word):
    results = [paddock.run(["sh", "-c", f"echo {word} {n}"], timeout=60) for n in range(2)]
    assert [one.stdout for one in results] == [f"{word} 0\\n", f"{word} 1\\n"]
"""
    (place / "test_word.py").write_text(test)
    for mode in ("once", "none"):
        ran = pytest_in(place, "-p", "xdist.plugin", "-n", "2", f"--paddock-record={mode}")
        assert ran.returncode == 0, ran.stdout
    records = place / "paddock_runs" / "test_word"
    assert len(list(records.iterdir())) == 3
    assert all(len(list(one.iterdir())) == 2 for one in records.iterdir())


def test_who_does_not_use_the_plugin_loads_nothing_of_paddock(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("""\
import sys

def test_a():
    assert not [name for name in sys.modules if name.startswith("paddock.run")]
    assert "pydantic" not in sys.modules
""")
    ran = pytest_in(tmp_path)
    assert ran.returncode == 0, ran.stdout


def test_marker_and_option_are_known_and_checked(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("""\
import pytest

@pytest.mark.paddock("paddock.yaml")
def test_a(paddock):
    pass

@pytest.mark.paddock(wrld={})
def test_b(paddock):
    paddock.run(["true"])
""")
    ran = pytest_in(tmp_path, "--strict-markers")
    assert "takes only names" in ran.stdout
    assert "did you mean world?" in ran.stdout
    (tmp_path / "pytest.ini").write_text("[pytest]\npaddock_record = sometimes\n")
    assert "is none of none, once, all" in pytest_in(tmp_path).stdout
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "paddock.pytest_plugin", "--help"],
        capture_output=True, text=True, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, timeout=60,
        cwd=tmp_path,
    )  # fmt: skip
    assert "--paddock-record" in said.stdout
