"""The sandboxes of others that run here, made ready to be timed: bubblewrap itself, runc, runsc,
srt. Knows their command lines; what they are compared with is not known here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from paddock.fence import bubblewrap
from paddock.model.errors import HostCannot

OPTIONAL = ("runc", "runsc", "srt")
_NOBODY = 65534
_CLOSE_S = 10.0
# Times from a small process: fork and exec out of the bench itself, with its threads and memory,
# would make every peer look slower than it is. It drops to the given uid itself, because an
# interpreter in a closed home cannot be executed under another.
_SPAWNER = """
import os, sys, time
uid, argv = int(sys.argv[1]), sys.argv[2:]
if uid:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
null = os.open(os.devnull, os.O_RDWR)
actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)]
for line in sys.stdin:
    began = time.perf_counter()
    for _ in range(int(line)):
        os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)
    worst, times = 0, []
    for _ in range(int(line)):
        worst = max(worst, abs(os.waitstatus_to_exitcode(os.wait()[1])))
        times.append(time.perf_counter() - began)
    print(worst, *times, flush=True)
"""


class Spawner:
    """Runs one command line again and again and tells how long each run took."""

    def __init__(self, name: str, argv: list[str], *, uid: int = 0) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _SPAWNER, str(uid), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def run(self) -> float:
        """Return the seconds from the start of the command to its end; raises HostCannot when it
        fails."""
        return self.crowd(1)[0]

    def crowd(self, count: int) -> list[float]:
        """The same for so many at once, each from the moment in which all were asked for."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{count}\n")
            self._process.stdin.flush()
        worst, *times = self._process.stdout.readline().split() or ["ended"]
        if worst != "0" or len(times) != count:
            raise HostCannot(f"{self.name} could not run: {self._last_words()}")
        return [float(taken) for taken in times]

    def close(self) -> None:
        try:
            self._process.communicate(timeout=_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._errors.close()

    def __enter__(self) -> Spawner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else "it ended without a word"


class Peers(msgspec.Struct, frozen=True):
    """The peers: bubblewrap, which is always here, and what else could be found and run."""

    bwrap: Spawner
    others: tuple[Spawner, ...]
    absent: dict[str, str]  # name to the reason


@contextlib.contextmanager
def open_peers(scratch: Path) -> Iterator[Peers]:
    """Every peer that really runs on this machine, tried once; ended with the block."""
    with contextlib.ExitStack() as stack:
        bwrap = stack.enter_context(_bwrap())
        others, absent = [], {}
        for name in OPTIONAL:
            program = shutil.which(name)
            if program is None:
                absent[name] = "not installed"
                continue
            peer = stack.enter_context(Spawner(name, _command(name, program, scratch)))
            try:
                peer.run()
                others.append(peer)
            except HostCannot as error:
                absent[name] = error.message
        yield Peers(bwrap, tuple(others), absent)


def _bwrap() -> Spawner:
    """A plan like ours: all namespaces, /usr to read, proc, dev, tmpfs, no capability."""
    argv = [bubblewrap.find(), "--unshare-all", "--uid", "1000", "--gid", "1000",
            "--die-with-parent", "--cap-drop", "ALL", "--clearenv", "--ro-bind", "/usr",
            "/usr"]  # fmt: skip
    for name, target in _top_links():
        argv += ["--symlink", target, f"/{name}"]
    argv += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run", "--tmpfs", "/tmp"]
    argv += ["--remount-ro", "/", "--chdir", "/", "--", "/usr/bin/true"]
    return Spawner("bwrap", argv, uid=_NOBODY if os.geteuid() == 0 else 0)


def _command(name: str, program: str, scratch: Path) -> list[str]:
    if name == "srt":
        return [program, "/usr/bin/true"]
    bundle = scratch / f"bundle-{name}"
    _write_bundle(bundle)
    words = [program, "--root", str(scratch / f"state-{name}")]
    if name == "runsc":
        words += ["--network=none", "--ignore-cgroups"]
        words += [] if os.geteuid() == 0 else ["--rootless"]
    return [*words, "run", "--bundle", str(bundle), f"paddock-bench-{os.getpid()}"]


def _write_bundle(bundle: Path) -> None:
    """An OCI bundle with the same view: the host's /usr to read, proc, dev, tmpfs."""
    rootfs = bundle / "rootfs"
    for name in ("usr", "proc", "dev", "tmp"):
        (rootfs / name).mkdir(parents=True)
    for name, target in _top_links():
        (rootfs / name).symlink_to(target)
    (bundle / "config.json").write_text(json.dumps(_oci_config()))


def _oci_config() -> dict[str, Any]:
    namespaces = ["pid", "network", "ipc", "uts", "mount"]
    linux: dict[str, Any] = {}
    if os.geteuid() != 0:
        namespaces.append("user")
        linux["uidMappings"] = [{"containerID": 0, "hostID": os.geteuid(), "size": 1}]
        linux["gidMappings"] = [{"containerID": 0, "hostID": os.getegid(), "size": 1}]
    linux["namespaces"] = [{"type": name} for name in namespaces]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": ["/usr/bin/true"],
            "env": ["PATH=/usr/bin:/bin"],
            "cwd": "/",
            "noNewPrivileges": True,
        },
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "bench",
        "mounts": [
            _oci_mount("/usr", "bind", "/usr", ["rbind", "ro"]),
            _oci_mount("/proc", "proc", "proc", []),
            _oci_mount("/dev", "tmpfs", "tmpfs", ["nosuid", "mode=755"]),
            _oci_mount("/tmp", "tmpfs", "tmpfs", ["nosuid", "nodev"]),
        ],
        "linux": linux,
    }


def _oci_mount(target: str, kind: str, source: str, options: list[str]) -> dict[str, Any]:
    return {"destination": target, "type": kind, "source": source, "options": options}


def _top_links() -> list[tuple[str, str]]:
    """`bin`, `lib` and their like, which are links into /usr on every merged system."""
    names = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
    return [(name, os.readlink(f"/{name}")) for name in names if os.path.islink(f"/{name}")]
