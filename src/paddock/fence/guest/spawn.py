"""From a request to a running program, by posix_spawn.

The C library starts the child without copying the guest (a fork of an interpreter costs more than
most commands), so there is no Python between here and the program. The guest stands still until
the kernel has let the exec through, which the host answers at once. Everything the guest has open
is close-on-exec, so descriptors 0, 1 and 2 are all that a program gets.
"""

import _signal
import errno
import os

OOM_SCORE = b"500"  # the kernel must prefer any program to the guest when memory runs out
_DEFAULTS = [_signal.SIGPIPE, _signal.SIGINT, _signal.SIGCHLD, _signal.SIGXFSZ]


class SpawnFailure(Exception):
    """A program was not started. `cause` is what the kernel refused: the working `directory`, the
    `program`, or the `interpreter` that a script names."""

    def __init__(self, cause, path, error):
        super().__init__(cause, path, error)
        self.cause = cause
        self.path = path
        self.error = error


def start(argv, environment, cwd, actions):
    """Starts a program as the leader of a session of its own; returns its pid."""
    try:
        os.chdir(cwd)  # the child's directory is ours at that moment; nobody else can look
    except OSError as error:
        raise SpawnFailure("directory", cwd, error) from None
    try:
        pid = _spawn(argv, environment, actions)
    finally:
        os.chdir("/")
    _prefer_for_oom(pid)
    return pid


def with_shell(argv):
    """`@shell` stands for bash where the root has it, else sh."""
    if argv[0] != "@shell":
        return argv
    shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    return [shell, *argv[1:]]


def _spawn(argv, environment, actions):
    failure = OSError(errno.ENOENT, "")
    for program in _candidates(argv[0], environment):
        try:
            return os.posix_spawn(
                program,
                argv,
                environment,
                file_actions=actions,
                setsid=True,
                setsigdef=_DEFAULTS,
                setsigmask=[],
            )
        except (FileNotFoundError, NotADirectoryError):
            if os.path.isfile(program):
                raise SpawnFailure("interpreter", program, failure) from None
        except PermissionError as error:
            failure = error
        except OSError as error:
            raise SpawnFailure("program", argv[0], error) from None
    raise SpawnFailure("program", argv[0], failure)


def _candidates(program, environment):
    if "/" in program:
        return [program]
    directories = environment.get("PATH", "/usr/bin:/bin").split(":")
    names = [os.path.join(directory or ".", program) for directory in directories]
    return [name for name in names if os.path.exists(name)]


def _prefer_for_oom(pid):
    try:
        fd = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return  # it has ended already
    try:
        os.write(fd, OOM_SCORE)
    except OSError:
        pass
    finally:
        os.close(fd)
