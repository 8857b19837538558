"""Which files are scenarios, and scenarios that are written in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.model.errors import InvalidInput
from paddock.run.scenarios.discovery import find_scenarios
from paddock.run.scenarios.preparation import prepare

YAML = "version: 1\nname: {}\nagent: [python, agent.py]\n"
PYTHON = """\
from paddock.run.scenarios import scenario

WORDS = {"agent": ["python", "agent.py"]}

@scenario(**WORDS, expect={"steps": {"max": 9}})
def refund_twice(result):
    assert result.exit_code == 0

@scenario(**WORDS, name="by another name")
def second(result):
    pass
"""
FILE = "version: 1\nagent: bot\nstage: narrow\nworld: {api.stripe.com: payments}\n"


def names(*places: Path) -> list[str]:
    return [one.name for one in find_scenarios(places)]


def test_scenarios_are_found_in_directories_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a.scenario.yaml").write_text(YAML.format("one"))
    (tmp_path / "below/paddock_b.yaml").write_text(YAML.format("two"))
    (tmp_path / "scenarios_c.py").write_text(PYTHON)
    (tmp_path / "paddock.yaml").write_text(FILE)
    (tmp_path / "other.yaml").write_text("a: 1\n")
    for hidden in ("node_modules", ".venv", "paddock_runs"):
        (tmp_path / hidden).mkdir()
        (tmp_path / hidden / "x.scenario.yaml").write_text("broken")
    assert names(tmp_path) == ["one", "refund twice", "by another name", "two"]


def test_a_named_file_is_read_whatever_it_is_called_and_once(tmp_path: Path) -> None:
    path = tmp_path / "any.yaml"
    path.write_text(YAML.format("one"))
    assert names(path, path) == ["one"]


def test_a_scenario_in_python_has_its_check_and_its_expectations(tmp_path: Path) -> None:
    path = tmp_path / "scenarios_c.py"
    path.write_text(PYTHON)
    first, _ = find_scenarios([path])
    assert first.check is not None and first.check.__name__ == "refund_twice"
    assert first.expect.steps is not None and first.expect.steps.most == 9
    assert first.cwd == tmp_path


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("scenarios_a.py", "raise RuntimeError('no')", "RuntimeError: no"),
        ("scenarios_a.py", "def broken(:", "SyntaxError"),
        ("scenarios_a.py", PYTHON.replace("steps", "stps"), "did you mean steps"),
        ("a.scenario.yaml", "version: 1\n", "name: this key is missing"),
        ("a.txt", "x", "neither YAML nor Python"),
        ("a.scenario.yaml", "\udcff", "not UTF-8"),
    ],
)
def test_a_file_that_is_no_scenario_is_refused(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    path = tmp_path / name
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(InvalidInput, match=words):
        find_scenarios([path])


def test_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.scenario.yaml").write_text("version: 1\n")
    with pytest.raises(InvalidInput) as caught:
        find_scenarios([tmp_path])
    assert "a.scenario.yaml:1" in str(caught.value) and "b.scenario.yaml:1" in str(caught.value)


def test_no_scenarios_is_a_mistake_not_a_pass(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no scenarios"):
        find_scenarios([tmp_path])


def written(tmp_path: Path, more: str) -> Path:
    (tmp_path / "paddock.yaml").write_text(FILE)
    path = tmp_path / "a.scenario.yaml"
    path.write_text(YAML.format("one") + more)
    return path


def test_the_world_of_a_scenario_is_laid_over_that_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "world: {smtp.example: mail, settings: {seed: 3}}\n")
    (prepared,) = prepare(find_scenarios([path]))
    world = prepared.order.policy.world
    assert world is not None
    assert [one.place for one in world.stand_ins] == ["api.stripe.com", "smtp.example"]
    assert world.seed == 3


def test_faults_and_stage_take_the_place_of_the_files(tmp_path: Path) -> None:
    path = written(tmp_path, "matrix: {faults: [none, flaky], stage: [draft]}\n")
    first, second = prepare(find_scenarios([path]))
    assert not first.order.policy.faults
    assert second.order.policy.faults
    assert second.order.policy.stage == "draft"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('expect: {world: ["api.strip.com.refunds.size() == 1"]}\n', "about no stand-in"),
        ("set: {sandbox.limits.memry: 1GiB}\n", "memry"),
        (
            "faults: [{id: a, match: {kind: tool, name: nope}, fault: {error: x}}]\n",
            "no tool .nope.",
        ),
    ],
)
def test_what_does_not_fit_the_paddock_file_is_said_before_anything_runs(
    tmp_path: Path, more: str, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        prepare(find_scenarios([written(tmp_path, more)]))
