"""The probe of the container driver: what it can enforce on this host, found by looking and by
trying.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from paddock.fence import bubblewrap, seccomp
from paddock.fence.container import cgroups, inside
from paddock.fence.container.notifier import HAS_EXIT_STATUS
from paddock.fence.driver import Probe, ProbeFinding
from paddock.model.errors import HostCannot
from paddock.model.version import install_command
from paddock.state.home import Home
from paddock.state.kernel_site import kernel_site_hint
from paddock.state.privilege import is_privileged

_TRY_S = 10.0
_SOURCE = str(Path(__file__).resolve().parents[3])
_OPEN_A_DOOR = """
import ctypes, os, socket, struct, sys
sys.path.append(sys.argv[1])
from paddock.fence.container.network import netlink, namespace
from paddock.fence.guest import agreed
from paddock.model.errors import CannotEnforce
if ctypes.CDLL(None, use_errno=True).unshare(0x50000000):  # user and network namespace
    sys.exit("no network namespace: " + os.strerror(ctypes.get_errno()))
fds = {n: socket.socket(*words[1:]).detach() for n, words in enumerate(agreed.SOCKETS)}
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as route:
    up = struct.pack("=BxHiII", 0, 0, 1, 1, 1)
    netlink.exchange(route, [netlink.NetlinkMessage("loopback that is up", 16, up)])
try:
    namespace.open_door(namespace.NamespaceSockets(fds))
except CannotEnforce as error:
    sys.exit(str(error))
"""


def probe(home: Home) -> Probe:
    """Return all findings, in the order in which a reader wants them."""
    hierarchy = cgroups.find()
    findings = (
        _isolation(),
        _seccomp(),
        *_limits(hierarchy),
        _disk(),
        _mounts(),
        _network(),
        _exec_events(),
        _file_audit(),
        _interpreter(),
        _code(),
    )
    return Probe("container", findings)


def _isolation() -> ProbeFinding:
    name = "isolation"
    try:
        bwrap = bubblewrap.find()
    except HostCannot as error:
        return ProbeFinding(name, False, "", error.message, error.hint)
    argv = [bwrap, "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib",
             "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
             "/usr/bin/true"]  # fmt: skip
    tried = subprocess.run(argv, capture_output=True, text=True, timeout=_TRY_S)
    if tried.returncode == 0:
        whose = "an own host uid each" if is_privileged() else "the caller's host uid"
        return ProbeFinding(name, True, f"bubblewrap, all namespaces, {whose}")
    return ProbeFinding(name, False, "", tried.stderr.strip()[-300:], _namespace_fix())


def _namespace_fix() -> str:
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if restricted.exists() and restricted.read_text().strip() == "1":
        return "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    cloning = Path("/proc/sys/kernel/unprivileged_userns_clone")
    if cloning.exists() and cloning.read_text().strip() == "0":
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    return "sudo sysctl -w user.max_user_namespaces=15000"


def _seccomp() -> ProbeFinding:
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    offered = actions.read_text().split() if actions.exists() else []
    if "user_notif" not in offered:
        why = "this kernel has no seccomp user notification (Linux 5.0)"
        return ProbeFinding("seccomp", False, "", why, "boot a kernel of 5.0 or later")
    try:
        size = len(seccomp.program()) // 8
    except HostCannot as error:
        return ProbeFinding("seccomp", False, "", error.message, error.hint)
    return ProbeFinding("seccomp", True, f"libseccomp, {size} instructions")


def _limits(hierarchy: cgroups.Hierarchy) -> list[ProbeFinding]:
    if hierarchy.version:
        by = f"cgroup v{hierarchy.version}"
        return [ProbeFinding(name, True, by) for name in ("memory", "pids", "cpu", "pause")]
    why = hierarchy.why_not or "no cgroup"
    return [
        ProbeFinding("memory", True, "watched every 50 ms, RLIMIT_DATA each", why, hierarchy.fix),
        ProbeFinding("pids", True, "RLIMIT_NPROC of the user namespace"),
        ProbeFinding("cpu", True, "pinning, whole CPUs only", why, hierarchy.fix),
        ProbeFinding("pause", True, "SIGSTOP by pid 1 of the sandbox", why, hierarchy.fix),
    ]


def _disk() -> ProbeFinding:
    watched = "watched, frozen and killed beyond it; forks copy"
    if not is_privileged():
        return ProbeFinding(
            "disk", True, watched, "only root can mount a pool with quotas", "run as root"
        )
    if "btrfs" not in Path("/proc/filesystems").read_text():
        return ProbeFinding(
            "disk", True, watched, "this kernel has no btrfs", "sudo modprobe btrfs"
        )
    if not any(os.access(f"{d}/mkfs.btrfs", os.X_OK) for d in ("/usr/sbin", "/sbin", "/usr/bin")):
        return ProbeFinding("disk", True, watched, "no mkfs.btrfs", "apt-get install btrfs-progs")
    return ProbeFinding("disk", True, "btrfs quota in a loop file (hard); forks share blocks")


def _mounts() -> ProbeFinding:
    if not is_privileged():
        return ProbeFinding("mounts", True, "as the caller")
    return ProbeFinding(
        "mounts", True, "idmapped: the agent stands for the owner of what is mounted"
    )


def _network() -> ProbeFinding:
    """Opens a door in a network of its own, which is gone with the process that tries."""
    # Not from where the caller stands: a project may have a socket.py of its own.
    argv = [sys.executable, "-I", "-c", _OPEN_A_DOOR, _SOURCE]
    tried = subprocess.run(argv, capture_output=True, text=True, timeout=_TRY_S, cwd="/")
    if tried.returncode == 0:
        return ProbeFinding("network", True, "nftables: every address leads to the network door")
    why = (tried.stderr.strip().splitlines() or ["it fails without a word"])[-1]
    fix = "sudo modprobe -a nf_tables nft_redir nft_reject_inet nft_log nft_limit nft_ct"
    return ProbeFinding("network", False, "", why[-300:], fix)


def _exec_events() -> ProbeFinding:
    if HAS_EXIT_STATUS:
        return ProbeFinding("exec events", True, "seccomp notifier, exit status of every program")
    why = "exit status of indirect children needs Linux 6.15"
    return ProbeFinding(
        "exec events", True, "seccomp notifier", why, "boot a kernel of 6.15 or later"
    )


def _file_audit() -> ProbeFinding:
    if is_privileged():
        return ProbeFinding("file events", True, "fanotify")
    return ProbeFinding("file events", False, "", "fanotify needs root", "run as root")


def _interpreter() -> ProbeFinding:
    python = inside.system_interpreter()
    if python:
        return ProbeFinding("python", True, python)
    return ProbeFinding(
        "python", True, "this interpreter, brought along", "no /usr/bin/python3 of 3.9 or later"
    )


def _code() -> ProbeFinding:
    from importlib.util import find_spec

    if find_spec("IPython") is not None:
        return ProbeFinding("run_code", True, "IPython")
    return ProbeFinding("run_code", False, "", kernel_site_hint(), install_command("code"))
