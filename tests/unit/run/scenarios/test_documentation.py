"""That the pages name every key, axis and word that there is, and that their examples are true."""

from __future__ import annotations

import re
from pathlib import Path

from cases import for_each
from paddock.policy.section import all_sections
from paddock.run.scenarios.actions import RunAction
from paddock.run.scenarios.cassettes import WORDS
from paddock.run.scenarios.definition import SCENARIO
from paddock.run.scenarios.parser import read_scenario
from paddock.run.scenarios.result import RunResult
from paddock.run.scenarios.scenario import AXES

DOCS = Path(__file__).resolve().parents[4] / "docs"
SCENARIOS = (DOCS / "scenarios.md").read_text()
PYTEST = (DOCS / "pytest.md").read_text()
KEYS = sorted({key for section in all_sections(SCENARIO) for key in section.keys})
NAMES = sorted(name for name in vars(RunResult) if not name.startswith("_"))
OF_ACTIONS = sorted(name for name, one in vars(RunAction).items() if isinstance(one, property))


@for_each("key", [*KEYS, *AXES])
def test_the_page_of_scenarios_names_every_key(key: str) -> None:
    assert re.search(rf"`{key}`|\b{key}:", SCENARIOS), f"docs/scenarios.md does not name `{key}`"


@for_each("name", [*WORDS, *NAMES, *OF_ACTIONS])
def test_the_page_of_the_plugin_names_every_word_and_result(name: str) -> None:
    assert re.search(rf"`{name}\b", PYTEST), f"docs/pytest.md does not name `{name}`"


def test_the_first_example_is_a_scenario(tmp_path: Path) -> None:
    found = re.search(r"```yaml refund.scenario.yaml\n(.*?)```", SCENARIOS, re.DOTALL)
    assert found
    scenario = read_scenario(found[1], tmp_path / "refund.scenario.yaml")
    assert scenario.name == "refund one of two charges"
