"""To have the plugin installed changes nothing for the package that it comes with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_pytest_does_not_parse_the_package_anew(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import paddock.model.action as action\n\n\n"
        "def test_it():\n"
        "    assert type(action.__loader__).__name__ != 'AssertionRewritingHook'\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
