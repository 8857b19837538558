"""A real run in a real terminal: what the person sees while the agent works and is asked about."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import time
from pathlib import Path

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


def in_terminal(words: list[str], cwd: Path, home: Path, answer: bytes) -> tuple[str, int]:
    """Runs the command, answers its one question, and gives all that was written."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.environ.update(PADDOCK_HOME=str(home), TERM="xterm", NO_COLOR="1")
        os.execv(sys.executable, [sys.executable, "-m", "paddock.cli.main", *words])
    data, end = b"", time.monotonic() + 90
    is_answered = False
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                piece = os.read(fd, 65536)
            except OSError:  # the other side has closed
                break
            if not piece:
                break
            data += piece
        if not is_answered and b"left) > " in data:
            time.sleep(0.8)  # long enough for what the agent writes meanwhile
            os.write(fd, answer)
            is_answered = True
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return data.decode(errors="replace"), os.waitstatus_to_exitcode(status)


def test_person_is_asked_and_the_agent_cannot_write_over_the_question(
    home: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "paddock.yaml").write_text(FILE)
    shown, code = in_terminal(["run", "--", "sh", "-c", AGENT], project, home, b"a\n")

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
