"""Where there is nothing to list, a person is told so and a program gets nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.cli.conftest import Call
from unit.cli.terminals import in_terminal

LISTS = [
    (["drafts"], "no drafts"),
    (["approvals"], "no questions"),
    (["approvals", "stats"], "no rule has asked"),
    (["approvals", "proposals"], "no rules are proposed"),
    (["ps"], "no sandboxes"),
    (["secrets", "list"], "no running sandbox has secrets"),
    (["template", "list"], "no templates"),
    (["volume", "list"], "no volumes"),
]


@pytest.mark.parametrize(("words", "said"), LISTS)
def test_person_is_told_that_there_is_nothing(
    home: Path, tmp_path: Path, words: list[str], said: str
) -> None:
    shown, code = in_terminal(words, tmp_path, home)

    assert code == 0
    assert shown.startswith(said)


@pytest.mark.parametrize(("words", "_said"), LISTS)
def test_program_gets_nothing(home: Path, call: Call, words: list[str], _said: str) -> None:
    said = call(*words)

    assert (said.code, said.out, said.err) == (0, "", "")
