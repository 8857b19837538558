"""The program of a fake machine's guest: the real one, without its boot, as an ordinary process.

Started as `python guest_process.py GUEST_DIRECTORY CHANNEL_FD`. Some operations are right for pid 1
of a sandbox only, because they stop, count or kill every process that there is, or write system
files: here those would be the host's, so they are refused. A signal to everybody ends this guest.
"""

import os
import signal
import sys

_HOST_WIDE = ("freeze", "thaw", "usage", "deleted_bytes", "kill_all", "furnish")


def _serve(guest_directory: str, channel_fd: int) -> None:
    sys.path.insert(0, guest_directory)
    import main  # type: ignore[import-not-found]  # the guest's own modules, from here on
    import processes  # type: ignore[import-not-found]
    import syscalls  # type: ignore[import-not-found]
    from loop import HostChannel, Loop  # type: ignore[import-not-found]

    def kill(pid, number, real=os.kill):  # type: ignore[no-untyped-def]
        if pid <= 1:
            os._exit(3)
        real(pid, number)

    os.kill = kill
    os.set_inheritable(channel_fd, False)  # no program may speak on it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the host process to handle
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    loop = Loop()
    table = processes.Table(loop, {"PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": "/tmp"})
    real_operations = main.operations(loop, table)

    def open_stream(stream, ask):  # type: ignore[no-untyped-def]
        if ask.get("op") in _HOST_WIDE:
            stream.fail(ValueError(f"{ask['op']} would reach the host itself"))
        else:
            real_operations(stream, ask)

    HostChannel(channel_fd, loop, open_stream)
    loop.run()


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
