"""The status of `paddock exec` when its command cannot be started, or runs out of time."""

from __future__ import annotations

import pytest

from cases import for_each
from paddock import Sandbox
from paddock.cli.main import main


@for_each(
    ("words", "status", "said"),
    [
        (["--", "no-such-program"], 127, "no-such-program"),
        (["--", "/etc/passwd"], 126, "/etc/passwd"),
        (["--cwd", "/nowhere", "--", "ls"], 126, "/nowhere"),
    ],
)
def test_command_that_cannot_be_started_gives_the_status_of_a_shell(
    shared_box: Sandbox,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    status: int,
    said: str,
) -> None:
    assert main(["exec", "--id", shared_box.sandbox_id, *words]) == status
    assert f"cannot start {words[-1]}" in (err := capsys.readouterr().err)
    assert said in err


@for_each("option", ["--command-timeout", "--timeout"])
def test_command_that_runs_out_of_time_gives_the_status_of_timeout(
    capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert main(["exec", option, "300ms", "--", "sleep", "60"]) == 124
    assert "timeout" in capsys.readouterr().err
