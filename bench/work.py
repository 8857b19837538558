"""Measures work inside a sandbox that already runs: commands, files in and out, plain computing."""

from __future__ import annotations

import os
import statistics
import subprocess

from bench.figures import (
    Figure,
    Limit,
    alternate,
    median,
    median_ms,
    number,
    spread_note,
    timed,
)
from bench.rig import TRUE, Rig, file_system
from paddock import Sandbox
from paddock.model.errors import IntegrityError

_FILE_BYTES = 64 << 20
_DISK = "4GiB"  # what was removed counts until the file system has committed it
_PYTHON = "/usr/bin/python3"
_LOOP = """
import sys, time
def loop(count):
    x = 1
    for i in range(count):
        x = (x * 31 + i) & 0xFFFFFF
    return x
began = time.perf_counter()
loop(int(sys.argv[1]))
print(1000 * (time.perf_counter() - began))
"""
_TRIAL_LOOPS = 1_000_000
_RUN_MS = 600  # longer than any period in which a limit is counted or a quota watched


def command(rig: Rig) -> list[Figure]:
    """A command's round trip, as a list of words and as a line for the shell."""
    with Sandbox.create() as box:
        return [
            _round_trip(rig, box, "list", TRUE, TRUE),
            _round_trip(rig, box, "shell", "true", ["/bin/bash", "-c", "true"]),
        ]


def files(rig: Rig) -> list[Figure]:
    """Pass 64 MiB through the files API each way, beside a plain file on the same disk."""
    content = os.urandom(_FILE_BYTES)
    plain = rig.scratch / "plain.bin"
    target = memoryview(bytearray(_FILE_BYTES))
    with Sandbox.create(limits={"disk": _DISK}) as box:
        runs = [
            timed(lambda: box.files.write("bench.bin", content)),
            timed(lambda: plain.write_bytes(content)),
            timed(lambda: box.files.read("bench.bin", "bytes")),
            timed(plain.read_bytes),
            timed(lambda: target.__setitem__(slice(None), content)),
        ]
        written, to_disk, read, from_disk, copied = (
            _FILE_BYTES / 1e6 / median(samples) for samples in alternate(rig.count(9, 3), *runs)
        )
        if box.files.read("bench.bin", "bytes") != content:
            raise IntegrityError("bench.bin came back other than it was written")
    plain.unlink()
    note = f"memcpy here: {number(copied)} MB/s; plain file on {file_system(rig.scratch)}, cached"
    limit, n = Limit(500, is_floor=True), rig.count(9, 3)
    return [
        Figure("files-write", "64 MiB in, files.write", written, "MB/s", n,
               "plain file write", to_disk, limit, note),
        Figure("files-read", "64 MiB out, files.read", read, "MB/s", n,
               "plain file read", from_disk, limit, note),
    ]  # fmt: skip


def cpu(rig: Rig) -> list[Figure]:
    """The same loop in the same interpreter, inside and native by turns."""
    cores = len(os.sched_getaffinity(0))
    with Sandbox.create(limits={"cpu": cores}) as box:
        loops = int(_TRIAL_LOOPS * rig.count(_RUN_MS, _RUN_MS // 2) / _native_ms(_TRIAL_LOOPS))
        inside, native = alternate(
            rig.count(40, 9), lambda: _inside_ms(box, loops), lambda: _native_ms(loops)
        )
    return [
        Figure(
            name="cpu",
            title="CPU-bound work inside",
            value=loops / 1000 / median(inside),
            unit="M loops/s",
            n=len(inside),
            peer="native",
            peer_value=loops / 1000 / median(native),
            limit=Limit(0.98, is_ratio=True, is_floor=True),
            note=_cpu_note(inside, native),
        )
    ]


def _round_trip(
    rig: Rig, box: Sandbox, form: str, inside: str | list[str], plain: list[str]
) -> Figure:
    ours, theirs = alternate(
        rig.count(200, 50),
        timed(lambda: box.commands.run(inside)),
        timed(lambda: subprocess.run(plain, capture_output=True, check=True)),
        warm_up=5,
    )
    return Figure(
        name=f"command-{form}",
        title=f"command round trip, {form}",
        value=median_ms(ours),
        unit="ms",
        n=len(ours),
        peer="subprocess.run",
        peer_value=median_ms(theirs),
        limit=Limit(2, is_ratio=True),
        note=f"{spread_note(ours)}; subprocess {spread_note(theirs)}",
    )


def _cpu_note(inside: list[float], native: list[float]) -> str:
    """Note that on a busy machine equal runs differ by more than the limit allows: the reader must
    know."""
    first, middle, third = statistics.quantiles(native, n=4)
    spread = 100 * (third - first) / middle
    # Two standard errors of a ratio of two medians, each about 0.93 quartile ranges over root n.
    error = 2.6 * spread / len(native) ** 0.5
    pairs = [theirs / ours for ours, theirs in zip(inside, native, strict=True)]
    return (
        f"good to about ±{error:.2g} %, native runs alone lie {spread:.2g} % apart (quartiles); "
        f"ratio of neighbours {median(pairs):.3f}, of the fastest {min(native) / min(inside):.3f}"
    )


def _inside_ms(box: Sandbox, loops: int) -> float:
    return float(box.commands.run(_loop(loops)).stdout)


def _native_ms(loops: int) -> float:
    ended = subprocess.run(_loop(loops), capture_output=True, check=True, text=True)
    return float(ended.stdout)


def _loop(loops: int) -> list[str]:
    return [_PYTHON, "-I", "-S", "-c", _LOOP, str(loops)]
