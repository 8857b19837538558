"""Count what one command passes through: functions, files, and changes from package to package.

    scripts/count_calls.py BASE OTHER

Each of the two is a command line of `paddock` in one argument, such as "run -q -- true". Prints
what OTHER calls of the package and BASE does not, so that "run ..." and "fork ..." show what is a
fork's own. It is a mirror for refactorings, not a test. Each command runs in a process of its own,
with all its threads traced.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import shlex
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

Call = tuple[str, str]  # file and qualified name


def trace(command: str, output: Path) -> None:
    """Run one command here, and write the functions that it calls, in order."""
    import paddock
    from paddock.cli.main import main as paddock_main

    root = f"{Path(paddock.__file__).parent}/"
    calls: list[Call] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_NEWLOCALS and not code.co_name.startswith("<")
        if event == "call" and is_function and code.co_filename.startswith(root):
            calls.append((code.co_filename.removeprefix(root), code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    with contextlib.suppress(SystemExit):
        paddock_main(shlex.split(command))
    sys.setprofile(None)
    output.write_text(json.dumps(calls))


def traced(command: str) -> list[Call]:
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory, "calls.json")
        arguments = [sys.executable, __file__, "--trace", str(output), command]
        subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
        return [(file, name) for file, name in json.loads(output.read_text())]


def package_changes(calls: list[Call]) -> int:
    packages = [file.split("/")[0] for file, _ in calls]
    return sum(before != after for before, after in itertools.pairwise(packages))


def main() -> None:
    if sys.argv[1] == "--trace":
        trace(sys.argv[3], Path(sys.argv[2]))
        return
    base, other = sys.argv[1:]
    shared = set(traced(base))
    own = list(dict.fromkeys(call for call in traced(other) if call not in shared))
    files = {file for file, _ in own}
    print(f"{len(own)} functions in {len(files)} files, {package_changes(own)} changes of package")
    for package, count in Counter(file.split("/")[0] for file, _ in own).most_common():
        print(f"  {count:4} {package}")


if __name__ == "__main__":
    main()
