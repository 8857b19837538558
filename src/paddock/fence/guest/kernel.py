"""The code interpreter of a sandbox: a stand-alone program that runs cells with IPython.

`python3 -I kernel.py EXTRA_SITE` reads requests from its stdin and answers on its stdout; each
message is a 4-byte big-endian length and a JSON object. Standard library, IPython and the two files
beside it (`kernel_link.py`, `kernel_display.py`) only, Python 3.10 or newer; nothing of Paddock may
be imported, and nothing that is said here is trusted by the host.

EXTRA_SITE holds an IPython for sandboxes that have none. It comes last on the path, so that what
the sandbox has of its own wins; only when that does not run, ours is put first.
"""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import gc
import importlib
import os
import site
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, NoReturn

# -I keeps this directory off the path; it is there for these two lines only, and comes last.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import kernel_display
import kernel_link

sys.path.pop()


def main() -> None:
    gc.disable()  # start-up makes much and drops little: a collection finds nothing
    interrupts = kernel_link.Interrupts()
    interrupts.install()
    link = kernel_link.KernelLink(interrupts)
    kernel_link.open_streams()
    faulthandler.enable()  # a crash in C code says on stderr where it was
    try:
        shell = load_shell(link, sys.argv[1] if len(sys.argv) > 1 else None)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        link.fail("KernelStartError", said, kernel_display.plain_traceback(error))
    sys.argv = [""]
    sys.path.insert(0, "")  # a cell's own modules; not before, or they could break our imports
    gc.freeze()
    gc.enable()
    Cells(link, interrupts, shell).serve()
    _leave()


class Cells:
    """Runs one request after the other."""

    def __init__(self, link: kernel_link.KernelLink, interrupts: Any, shell: Any) -> None:
        self._link, self._interrupts, self._shell = link, interrupts, shell

    def serve(self) -> None:
        while (request := self._link.receive()) is not None:
            if request.get("op") == "ping":
                count = self._shell.execution_count - 1
                self._link.send("pong", id=request.get("id"), execution_count=count)
                continue
            self._interrupts.expect_cell()
            self._link.begin(request.get("id"))
            error = self._execute(request)
            if not self._link.is_ours:
                _end_child(error)
            status = "ok" if error is None else "error"
            self._link.end(execution_count=self._shell.execution_count - 1, status=status)

    def _execute(self, request: dict[str, Any]) -> BaseException | None:
        """Runs the cell and tells of its error, if it ended with one."""
        try:
            if request.get("op") != "execute" or not isinstance(request.get("code"), str):
                raise ValueError("the request is neither a ping nor an execute with code")
            with _surroundings(request.get("envs") or {}, request.get("cwd")):
                error = self._run(request["code"])
        except Exception as failure:
            error = failure
        text = self._shell.take_traceback(error)
        if error is not None and self._link.is_ours:
            self._link.send("error", **kernel_display.describe(error, text))
        elif text:
            kernel_link.complain(text)
        return error

    def _run(self, code: str) -> BaseException | None:
        importlib.invalidate_caches()  # the last cell may have installed something
        try:
            try:
                self._interrupts.arm()
                result = self._shell.run_cell(code, store_history=True)
            finally:
                self._interrupts.disarm()
        except BaseException as outside:  # an interrupt just before or just after the cell
            self._interrupts.disarm()
            return outside
        # Not `or`: an exception may well be false.
        early, late = result.error_before_exec, result.error_in_exec
        error: BaseException | None = late if early is None else early
        return error


@contextlib.contextmanager
def _surroundings(envs: dict[str, str], cwd: str | None) -> Iterator[None]:
    """Variables and directory for one cell; both are put back, whatever the cell did."""
    before, home = {name: os.environ.get(name) for name in envs}, None
    if cwd is not None:
        home = os.getcwd()
        os.chdir(cwd)
    os.environ.update(envs)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if home is not None:
            os.chdir(home)


# ---- the shell -----------------------------------------------------------------------------------


class ShellPart:
    """What differs from IPython's own shell; mixed in below, once IPython is known to import."""

    link: Any = None
    scratch = ""
    user_ns: dict[str, Any]
    var_expand: Any
    classes: tuple[Any, Any] = (None, None)
    _traceback: tuple[BaseException | None, str] | None = None

    def init_ipython_dir(self, _: Any) -> None:
        self.ipython_dir = self.scratch  # looked up by IPython, it costs 7 ms

    def init_profile_dir(self, _: Any) -> None:
        from IPython.core.profiledir import ProfileDir

        self.profile_dir = ProfileDir(location=self.scratch)

    def init_completer(self) -> None:
        """Nobody presses Tab here: the completer is loaded when something asks for it."""

    def __getattr__(self, name: str) -> Any:
        if name != "Completer":
            raise AttributeError(name)
        super().init_completer()  # type: ignore[misc]
        return self.__dict__[name]

    def init_display_pub(self) -> None:
        self.display_pub_class = self.classes[0]
        super().init_display_pub()  # type: ignore[misc]

    def init_displayhook(self) -> None:
        self.displayhook_class = self.classes[1]
        super().init_displayhook()  # type: ignore[misc]

    @contextlib.contextmanager
    def _tee(self, channel: str) -> Iterator[None]:
        yield  # the original keeps a copy of all that is printed, for a history that is off

    def enable_gui(self, gui: str | None = None) -> None:
        if gui is not None:
            raise RuntimeError(f"no display is attached: {gui!r} cannot be used here")

    def run_async(self, coroutine: Any) -> Any:
        """Top-level await. An interrupted cell is cancelled, or it would go on during the next."""
        import asyncio

        loop = importlib.import_module("IPython.core.async_helpers").get_asyncio_loop()
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except KeyboardInterrupt as interrupt:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                error = loop.run_until_complete(task).error_in_exec
                self._traceback = None  # of the cancellation; only its place in the cell is wanted
                interrupt.__traceback__ = getattr(error, "__traceback__", None)
            raise

    def system(self, cmd: str) -> None:
        """`!command`: straight to fd 1 and 2, and an interrupt is the cell's error."""
        import subprocess

        line = self.var_expand(cmd, depth=1)
        kernel_link.flush_streams()
        bash = "/bin/bash" if os.path.exists("/bin/bash") else None
        # A shell is what `!` means, and the sandbox is the fence around it.
        code = subprocess.call(line, shell=True, executable=bash)  # noqa: S602
        self.user_ns["_exit_code"] = code

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        kwargs["exception_only"] = False  # a sys.exit() should say where it stands, too
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        kernel_display.hide_own_frames(error)
        if kernel_display.has_group(error):  # IPython would print it, not hand it over
            self._showtraceback(None, error, [kernel_display.plain_traceback(error)])
            return
        super().showtraceback(exc_tuple, *args[:2], **kwargs)  # type: ignore[misc]

    def show_usage_error(self, exc: BaseException) -> None:
        self._showtraceback(None, exc, [f"UsageError: {exc}"])

    def _showtraceback(self, _: Any, error: Any, lines: list[str]) -> None:
        self._print_pending()
        self._traceback = (error, "\n".join(lines))

    def take_traceback(self, error: BaseException | None) -> str:
        """The text for the error that ended the cell. Any other was shown, not fatal: to stderr."""
        kept, self._traceback = self._traceback, None
        if error is not None and kept is not None and kept[0] is error:
            return kept[1]
        self._traceback = kept
        self._print_pending()
        return "" if error is None else kernel_display.plain_traceback(error)

    def _print_pending(self) -> None:
        if self._traceback is not None:
            kernel_link.complain(self._traceback[1])
            self._traceback = None


class PublisherPart:
    """display(): straight to the host."""

    def publish(self, data: Any, metadata: Any = None, *_: Any, **__: Any) -> None:
        kernel_display.publish(ShellPart.link, "display", data, metadata)

    def clear_output(self, wait: bool = False) -> None:
        """What has left cannot be taken back."""


class HookPart:
    """The value of the last expression."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        kernel_display.publish(ShellPart.link, "result", format_dict, md_dict)

    def log_output(self, format_dict: Any) -> None:
        """No history, so no copy of every picture either."""

    def finish_displayhook(self) -> None:
        self._is_active = False


def load_shell(link: kernel_link.KernelLink, extra: str | None) -> Any:
    """The shell, with the sandbox's own IPython or else with ours."""
    ShellPart.link = link
    ShellPart.scratch = os.environ["IPYTHONDIR"] = _scratch_directory()
    _extend_path(extra)
    sys.meta_path.insert(0, kernel_display.PlotHook())
    loaded_before = set(sys.modules)
    try:
        return make_shell()
    except Exception:
        if extra is None:
            raise
    # A package of the sandbox does not fit (an old traitlets, say): take a set that does.
    for name in set(sys.modules) - loaded_before:
        if name.partition(".")[0] not in sys.stdlib_module_names:
            del sys.modules[name]
    sys.path.insert(0, extra)
    try:
        return make_shell()
    finally:
        sys.path.remove(extra)


def make_shell() -> Any:
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    meta: Any = type(InteractiveShell)
    ShellPart.classes = (
        meta("Publisher", (PublisherPart, DisplayPublisher), {}),
        meta("Hook", (HookPart, DisplayHook), {}),
    )
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "nocolor"
    config.IPCompleter.use_jedi = False
    shell = meta("Shell", (ShellPart, InteractiveShell), {}).instance(config=config)
    # IPython advises how to leave a terminal after sys.exit(); there is none to leave.
    warnings.filterwarnings("ignore", message="To exit: use")
    builtins.input = _no_input
    shell.loop_runner = shell.run_async
    shell.push({"exit": sys.exit, "quit": sys.exit}, interactive=False)
    return shell


# ---- small parts ---------------------------------------------------------------------------------


def _extend_path(extra: str | None) -> None:
    """What -I left out: PYTHONPATH and the user's own packages. Then the extra site, last."""
    from_variable = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    system = list(sys.path)
    if sys.prefix == sys.base_prefix:  # a virtual environment has no part in them
        with contextlib.suppress(Exception):  # the code of a .pth file may do anything
            # Also when it is not there yet: a cell may install the first package into it.
            site.addsitedir(site.getusersitepackages())
    mine = [path for path in sys.path if path not in system]
    at = next((i for i, path in enumerate(system) if path.endswith("-packages")), len(system))
    sys.path[:] = [*from_variable, *system[:at], *mine, *system[at:]]
    if extra is not None:
        sys.path.append(extra)


def _scratch_directory() -> str:
    """A place for what IPython insists on writing. Not tempfile: it loads OpenSSL, for 5 ms."""
    name = f".ipython-{os.getpid()}-{time.time_ns():x}"
    candidates = [os.environ.get(key, "") for key in ("TMPDIR", "HOME")]
    for directory in (candidates[0], "/tmp", "/var/tmp", candidates[1]):
        with contextlib.suppress(OSError):
            if directory:
                os.mkdir(os.path.join(directory, name), 0o700)
                return os.path.join(directory, name)
    raise OSError("no temporary directory can be written: tried TMPDIR, /tmp, /var/tmp and HOME")


def _no_input(prompt: object = "") -> NoReturn:
    raise EOFError(
        "no terminal is attached: input() has nobody to ask; put the value into the code"
    )


def _end_child(error: BaseException | None) -> NoReturn:
    """A fork child that ran off the end of its cell: it must not go on as a second interpreter."""
    kernel_link.flush_streams()
    status: object = 0 if error is None else 1
    if isinstance(error, SystemExit):
        status = error.code or 0
    os._exit(status & 255 if isinstance(status, int) else 1)


def _leave() -> NoReturn:
    """The host has closed. Threads that a cell left running must not keep the process alive."""
    import atexit
    import shutil

    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    kernel_link.flush_streams()
    shutil.rmtree(ShellPart.scratch, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
