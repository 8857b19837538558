"""`paddock doctor` takes seconds: a person sees that it goes on, a program only its end."""

from __future__ import annotations

import re
from pathlib import Path

from paddock.cli.commands.doctor import DOOR
from unit.cli.past import paddock
from unit.cli.terminals import INTERRUPT, in_terminal


def test_person_sees_each_check_as_it_ends(home: Path, tmp_path: Path) -> None:
    """The interrupt comes after the first ones, and so before the end."""
    shown, code = in_terminal(["doctor"], tmp_path, home, INTERRUPT, when=b"] isolation")

    assert code == 130, shown
    assert re.findall(r"\[(\d)/9\] ([a-z ]+): done in", shown)[:2] == [
        ("1", "this host"),
        ("2", DOOR),
    ]
    assert "[3/9] isolation ..." in shown
    assert "Linux " not in shown


def test_program_gets_the_end_alone(home: Path) -> None:
    said = paddock("doctor", "--no-tests", PADDOCK_HOME=str(home))

    assert said.stderr == ""
    assert said.stdout.startswith("Linux ")
