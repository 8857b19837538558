"""The examples on the page of the SDK: each runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs/sdk.md").read_text()
EXAMPLES = re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", PAGE, re.DOTALL | re.M)

pytestmark = pytest.mark.usefixtures("driver", "private_home")


def test_every_example_of_the_page_is_found() -> None:
    assert len(EXAMPLES) == PAGE.count("```python\n") > 5


@pytest.mark.parametrize(("group", "example"), EXAMPLES, ids=[group for group, _ in EXAMPLES])
def test_example_runs_as_it_stands(group: str, example: str) -> None:
    exec(compile(example, f"docs/sdk.md, {group}", "exec"), {"__name__": "__main__"})
