"""Makes a sandbox, a fork of it and a copy that a snapshot would read, then dies with its keeper:
nobody is left to clean up."""

from __future__ import annotations

import os
import signal

from paddock import Sandbox
from paddock.doors.machine.engine import Engine

MEBIBYTES = 8

box = Sandbox.create()
box.commands.run(f"head -c {MEBIBYTES}M /dev/urandom >big")
box.fork()
driver = Engine.current().opened_driver
assert driver is not None
driver.layers.fork(box._calls.box.machine.layer, "saving-1-x", 1 << 30)
os.kill(driver.link._process.pid, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
