"""Creates and kills sandboxes many times, and prints what the process held before and after.

usage: cycle.py MARKER CYCLES
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path

from marked import mark_ids

from paddock import Sandbox
from paddock.doors.machine.engine import Engine

SETTLE_S = 8.0


def cycle(number: int) -> None:
    with Sandbox.create() as box:
        box.commands.run(["true"])
        box.files.write("f", "x" * 1000)
        if number % 10 == 0:
            box.commands.run("sleep 1000", background=True)
            watch = box.files.watch_dir(".")
            box.pause()
            box.resume()
            with box.fork() as child:
                child.files.read("f")
            if number % 20 == 0:
                watch.stop()


def held() -> dict[str, int]:
    """What this process holds: descriptors, threads, tasks, children, sandboxes, layers."""
    engine = Engine.current()
    driver = engine.opened_driver
    assert driver is not None
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "tasks": len(asyncio.all_tasks(engine.loop)),
        "sandboxes": len(os.listdir(engine.home.sandboxes)),
        "layers": len(driver.layers.names()),
        "keeper's descriptors": _descriptors_of_keeper(),
    }


def _descriptors_of_keeper() -> int:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    found = [*children]
    for task in os.listdir("/proc/self/task"):
        found += Path(f"/proc/self/task/{task}/children").read_text().split()
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in set(found))


def settled(wanted: dict[str, int]) -> dict[str, int]:
    """What is held once it is no more than `wanted`, or after a while."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        now = held()
        if all(now[name] <= wanted[name] for name in wanted) or time.monotonic() > deadline:
            return now
        time.sleep(0.1)


def main() -> None:
    mark_ids(sys.argv[1])
    for number in range(10):
        cycle(number)
    time.sleep(1)  # the pool fills up, threads of the first calls are there
    before = held()
    for number in range(int(sys.argv[2])):
        cycle(number)
    print(json.dumps({"before": before, "after": settled(before)}))


main()
