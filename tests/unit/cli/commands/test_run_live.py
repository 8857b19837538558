"""A real run in a real terminal: what the person sees while the agent works and is asked about."""

from __future__ import annotations

import re
from pathlib import Path

from unit.cli.terminals import in_terminal

FILE = """\
version: 1
agent: bot
stage: approve
approvals: {by: [terminal], timeout: 60s}
rules:
  - id: ask-rm
    match: {kind: exec, program: [rm]}
    decide: ask
    why: Removing is for people.
"""
# It writes over the line above while the person reads the question.
AGENT = (
    r"""(sleep 0.3; printf '\033[1A\033[2Kharmless\n') & rm gone; echo "rm said $?"; wait; exit 3"""
)


def test_person_is_asked_and_the_agent_cannot_write_over_the_question(
    home: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "paddock.yaml").write_text(FILE)
    shown, code = in_terminal(["run", "--", "sh", "-c", AGENT], project, home, b"a\n", wait_s=0.8)

    assert code == 3, shown
    question, _, rest = re.split(r"(\[a\]pprove.*?> )", shown, maxsplit=1)
    assert "approval" in question
    assert "Removing is for people." in question
    assert "harmless" not in question
    assert rest.startswith("a\r\n"), rest[:200]  # nothing came between the question and its answer
    assert "\\x1b[1A\\x1b[2Kharmless" in rest
    assert "rm said 1" in rest
    assert re.search(r"rm gone +ask +ask-rm", rest)
    assert "asked     1: approved 1" in rest
    assert "exit code 3" in rest
