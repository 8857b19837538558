"""`paddock doctor`: what can be enforced on this host, what not, why, and what fixes it.

It does not stop at looking: it starts a sandbox with small limits and tries to break each of them.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from paddock.cli.cells import labelled
from paddock.cli.output import is_coloured
from paddock.cli.parser import CommandParser
from paddock.cli.progress import Progress
from paddock.cli.table import line_width
from paddock.model.errors import CommandExitException, PaddockError

if TYPE_CHECKING:
    from paddock.doors.machine.sandbox import Sandbox
    from paddock.fence.driver import ProbeFinding
    from paddock.state.home import Home

_LIMITS = {"memory": "128MiB", "pids": 24, "disk": "32MiB", "cpu": 1}


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--no-tests", action="store_true", help="look only, start no sandbox")
    return parser


def main(words: list[str]) -> int:
    options = make_parser().parse_args(words)
    from paddock.cli.doctor_door import NAME, prove_door
    from paddock.fence.registry import driver_class
    from paddock.state.home import Home

    home = Home.find()
    is_tested = not options.no_tests
    checks = 1 + (1 + len(_ATTEMPTS) if is_tested else 0)
    progress = Progress(checks, is_shown=is_tested and not options.json)
    progress.begin("this host")
    found = driver_class().probe(home)
    progress.end()
    findings, proofs = found.findings, {}
    runs: list[str] = []
    if found.is_usable and is_tested:
        progress.begin(NAME)
        door, failure = prove_door(runs)
        progress.end(failure)
        findings = (*findings, door)
        proofs = prove(progress, runs) | ({NAME: failure} if door.is_enforced else {})
    is_sound = found.is_usable and all(p is None for p in proofs.values())
    if options.json:
        print(json.dumps({**_plain(home, findings, proofs, is_sound), "runs": runs}))
    else:
        _show(home, findings, proofs)
        if runs:
            print(f"tried in the runs {' and '.join(runs)}")
    return 0 if is_sound else 3


def prove(progress: Progress, runs: list[str]) -> dict[str, str | None]:
    """Attack each boundary: None when it held, else what happened. The id of the run in which that
    was done is added to `runs`."""
    from paddock.cli.own_sandbox import create_sandbox

    proofs: dict[str, str | None] = {}
    try:
        with create_sandbox("doctor", limits=_LIMITS, timeout=120) as box:
            runs.append(box.sandbox_id)
            for name, attempt in _ATTEMPTS.items():
                progress.begin(name)
                proofs[name] = attempt(box)
                progress.end(proofs[name])
    except PaddockError as error:
        proofs["isolation"] = error.message
    return proofs


def _isolated(box: Sandbox) -> str | None:
    tried = "cat /etc/shadow || ls /root || mount -t tmpfs x /mnt || unshare -U true"
    return _must_fail(box, tried)


def _no_network(box: Sandbox) -> str | None:
    return _must_fail(box, "exec 3<>/dev/tcp/192.0.2.1/53")


def _memory(box: Sandbox) -> str | None:
    hog = "import mmap\nm=[]\nwhile True: m.append(bytearray(8<<20))"
    return _must_fail(box, ["python3", "-c", hog], "memory")


def _pids(box: Sandbox) -> str | None:
    return _must_fail(box, "for i in $(seq 100); do sleep 5 & done; wait", timeout=15)


def _disk(box: Sandbox) -> str | None:
    failure = _must_fail(box, "dd if=/dev/zero of=big bs=1M count=256; sleep 3; exit 1", "disk")
    box.commands.run("rm -f big")
    return failure


def _exec_events(box: Sandbox) -> str | None:
    box.commands.run("env true")
    seen = [e.argv for e in box.exec_events()]
    return None if ("true",) in seen else "a nested exec was not reported"


def _pause(box: Sandbox) -> str | None:
    box.pause()
    state = box.get_info().state
    box.resume()
    return None if state == "paused" else f"state is {state}"


_ATTEMPTS: dict[str, Callable[[Sandbox], str | None]] = {
    "isolation": _isolated,
    "network": _no_network,
    "exec events": _exec_events,
    "pause": _pause,
    "memory": _memory,
    "disk": _disk,
    "pids": _pids,
}


def _must_fail(
    box: Sandbox, cmd: str | list[str], limit: str | None = None, timeout: float = 30
) -> str | None:
    try:
        box.commands.run(cmd, timeout=timeout)
    except CommandExitException as error:
        by = error.result.limits_hit
        stopped_otherwise = (
            limit is not None and limit not in by and "MemoryError" not in error.stderr
        )
        return f"stopped, but not by the {limit} limit" if stopped_otherwise else None
    return "it was possible"


def _plain(
    home: Home, findings: tuple[ProbeFinding, ...], proofs: dict[str, str | None], is_sound: bool
) -> dict[str, object]:
    return {
        "ok": is_sound,
        "home": str(home.root),
        "kernel": platform.release(),
        "root": os.geteuid() == 0,
        "findings": [msgspec.structs.asdict(f) for f in findings],
        "proved": {name: failure is None for name, failure in proofs.items()},
        "failures": {name: failure for name, failure in proofs.items() if failure},
    }


def _show(home: Home, findings: tuple[ProbeFinding, ...], proofs: dict[str, str | None]) -> None:
    from paddock.fence.driver import ProbeFinding

    width = line_width()
    who = "root" if os.geteuid() == 0 else "ordinary user"
    print("\n".join(labelled("", f"Linux {platform.release()}, {who}, {home.root}", width)))
    network = ProbeFinding(
        "network", True, "own namespace, loopback only unless the file allows more"
    )
    for finding in (*findings[:2], network, *findings[2:]):
        failure = proofs.get(finding.name)
        mark = "no" if not finding.is_enforced else "BROKEN" if failure else "ok"
        proved = ", proved" if finding.name in proofs and not failure else ""
        colour = {"ok": "32", "no": "33", "BROKEN": "31"}[mark]
        first, *rest = labelled(
            f"{mark:6} {finding.name:12} ", f"{finding.by or 'not available'}{proved}", width
        )
        if is_coloured():
            first = first.replace(mark, f"\033[{colour}m{mark}\033[0m", 1)
        print("\n".join([first, *rest]))
        for label, text in (("", failure), ("", finding.why_not), ("fix: ", finding.fix)):
            if text:
                print("\n".join(labelled(f"{'':20}{label}", text, width)))
