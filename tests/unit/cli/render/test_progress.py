"""The progress of work that takes a while."""

from __future__ import annotations

import io
import re
import sys

import pytest

from paddock.cli.render.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _work(progress: Progress) -> None:
    for name, failure in (("memory", None), ("disk", "it was possible")):
        progress.begin(name)
        progress.end(failure)


def test_each_part_has_a_line_that_is_there_while_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    _work(Progress(2))

    drawn = [one for one in re.split(r"\r\033\[K", terminal.getvalue()) if one]
    assert drawn[0] == "[1/2] memory ..."
    assert re.fullmatch(r"\[1/2\] memory: done in \d+\.\d s\n", drawn[1])
    assert drawn[2:] == ["[2/2] disk ...", "[2/2] disk: it was possible\n"]


def test_pipe_and_whoever_wants_json_see_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, is_shown in ((io.StringIO(), True), (Terminal(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        _work(Progress(2, is_shown=is_shown))
        assert stream.getvalue() == ""
