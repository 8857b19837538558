"""Writes through a shared memory map before a step and after it, and unmaps the file before its
end. `python with_maps.py CASE`: under which names the file is there meanwhile. `data.bin` is a file
of the project."""

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import witness  # noqa: F401 (it does its work at the end)

case = sys.argv[1]
name = {
    "new": "new.bin",
    "deleted in its name": "new.bin (deleted)",
    "newline in its name": "new\n.bin",
    "backslash in its name": "new\\012.bin",
}.get(case, "data.bin")
if name != "data.bin":
    Path(name).write_bytes(b"-" * 4096)
if "linked" in case:
    os.link(name, "another.bin")
with open(name, "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 4096)
if "unlinked" in case:
    os.unlink(name)
mapped[0:5] = b"first"
time.sleep(0.05)  # the kernel's clock for files has ticks
subprocess.run(["true"])
mapped[10:16] = b"second"
mapped.flush()
mapped.close()
