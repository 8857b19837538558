"""`paddock demo`: a sandbox, a command in it, and three escapes that fail, each with the reason."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from paddock.doors.machine.sandbox import Sandbox
from paddock.model.errors import CommandExitException


@dataclass(frozen=True, slots=True)
class Escape:
    """Something an agent might try, and what stands in its way."""

    wish: str
    command: str
    why: str


def main(words: list[str]) -> int:
    argparse.ArgumentParser(prog="paddock demo", description=__doc__).parse_args(words)
    with tempfile.TemporaryDirectory() as directory:
        secret = Path(directory) / "id_ed25519"
        secret.write_text("the host's key")
        began = time.perf_counter()
        with Sandbox.create(limits={"memory": "256MiB"}) as box:
            took_ms = 1000 * (time.perf_counter() - began)
            _say(f"A sandbox: {box.sandbox_id}, {took_ms:.0f} ms, the first of this process")
            again = time.perf_counter()
            with Sandbox.create() as second:
                second.commands.run("true")
                took_ms = 1000 * (time.perf_counter() - again)
            _say(f"A second one, with a command run in it: {took_ms:.0f} ms")
            shown = box.commands.run('echo "hello from $(hostname), I am $(id -un)"').stdout
            _say(f"A command inside prints: {shown.strip()}")
            failures = sum(not _show_escape(box, e) for e in _escapes(secret))
            events = box.exec_events()
            last = " ".join(events[-1].argv)
            _say(f"\nEvery program was seen: {len(events)}, the last was {last!r}")
    return 1 if failures else 0


def _escapes(secret: Path) -> list[Escape]:
    return [
        Escape(
            "Read a key of the host",
            f"cat {secret}",
            "the host's files are not in its mount namespace: only /usr and what is mounted",
        ),
        Escape(
            "Phone home",
            "exec 3<>/dev/tcp/192.0.2.1/80 && echo connected",
            "its network namespace has loopback only",
        ),
        Escape(
            "Become root in a new namespace",
            "unshare --user --map-root-user id",
            "seccomp refuses namespaces, and no process inside holds a capability",
        ),
    ]


def _show_escape(box: Sandbox, escape: Escape) -> bool:
    _say(f"\n{escape.wish}:\n  $ {escape.command}")
    try:
        result = box.commands.run(escape.command, timeout=10)
    except CommandExitException as failure:
        last = (failure.stderr.strip().splitlines() or ["(no output)"])[-1]
        _say(f"  {last}\n  failed (exit {failure.exit_code}): {escape.why}")
        return True
    _say(f"  IT WORKED: {result.stdout.strip()}")
    return False


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.exit(code)
