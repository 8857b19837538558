"""Measures work inside a sandbox that already runs: commands, files in and out, plain computing."""

from __future__ import annotations

import os
import subprocess

from paddock import Sandbox
from paddock.cli.bench_figures import Figure, Limit, alternate, median, median_ms, timed
from paddock.cli.bench_rig import TRUE, Rig, file_system

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
print(time.perf_counter() - began)
"""
_TRIAL_LOOPS = 1_000_000


def command(rig: Rig) -> list[Figure]:
    """A command's round trip, as a list of words and as a line for the shell."""
    with Sandbox.create() as box:
        return [
            _round_trip(rig, box, "command-list", TRUE, TRUE),
            _round_trip(rig, box, "command-shell", "true", ["/bin/bash", "-c", "true"]),
        ]


def files(rig: Rig) -> list[Figure]:
    """64 MiB through the files API each way, beside a plain file on the same disk."""
    content = os.urandom(_FILE_BYTES)
    plain = rig.scratch / "plain.bin"
    with Sandbox.create(limits={"disk": _DISK}) as box:

        def read_back() -> None:
            assert len(box.files.read("bench.bin", "bytes")) == _FILE_BYTES

        runs = [
            timed(lambda: box.files.write("bench.bin", content)),
            timed(lambda: plain.write_bytes(content)),
            timed(read_back),
            timed(plain.read_bytes),
            timed(lambda: bytearray(content)),
        ]
        written, to_disk, read, from_disk, copied = (
            _FILE_BYTES / 1e6 / median(samples) for samples in alternate(rig.count(9, 3), *runs)
        )
    plain.unlink()
    note = f"memcpy here: {copied:.4g} MB/s; plain file on {file_system(rig.scratch)}, cached"
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
        loops = int(_TRIAL_LOOPS * rig.count(20, 7) / 10 / _native_loop(_TRIAL_LOOPS))
        inside, native = alternate(
            rig.count(9, 5), lambda: _inside_loop(box, loops), lambda: _native_loop(loops)
        )
    return [
        Figure(
            name="cpu",
            title="CPU-bound work inside",
            value=loops / 1e6 / median(inside),
            unit="M loops/s",
            n=len(inside),
            peer="native",
            peer_value=loops / 1e6 / median(native),
            limit=Limit(0.98, is_ratio=True, is_floor=True),
            note=f"{median(native):.2g} s a run in {_PYTHON}; a busy machine shows here first",
        )
    ]


def _round_trip(
    rig: Rig, box: Sandbox, name: str, inside: str | list[str], plain: list[str]
) -> Figure:
    ours, theirs = alternate(
        rig.count(200, 50),
        timed(lambda: box.commands.run(inside)),
        timed(lambda: subprocess.run(plain, capture_output=True, check=True)),
        warm_up=5,
    )
    return Figure(
        name=name,
        title=f"command round trip, {inside!r}",
        value=median_ms(ours),
        unit="ms",
        n=len(ours),
        peer="subprocess.run",
        peer_value=median_ms(theirs),
        limit=Limit(2, is_ratio=True),
    )


def _inside_loop(box: Sandbox, loops: int) -> float:
    argv = [_PYTHON, "-I", "-S", "-c", _LOOP, str(loops)]
    return float(box.commands.run(argv).stdout)


def _native_loop(loops: int) -> float:
    argv = [_PYTHON, "-I", "-S", "-c", _LOOP, str(loops)]
    return float(subprocess.run(argv, capture_output=True, check=True, text=True).stdout)
