"""The pen: what is kept in it cannot dial, see or write more than it should, and nothing of it
outlives its host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import paddock
from conformance.waiting import eventually
from paddock.model.errors import InvalidInput
from paddock.world.pen.interpreter import find
from paddock.world.pen.launch import PenLimits, PenProgram, run_once
from paddock.world.pen.mounts import PenMounts, bwrap_arguments
from paddock.world.pen.pen import Pen
from paddock.world.service import StandInFailed


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def kept(tmp_path: Path, project: Path) -> PenProgram:
    return PenProgram(("true",), PenMounts(tmp_path / "own", project))


@pytest.fixture
def run(kept: PenProgram) -> Callable[[str], str]:
    """What a Python program says that runs in a pen."""

    def say(code: str) -> str:
        words = ("python3", "-c", textwrap.dedent(code))
        return run_once(replace(kept, argv=words), timeout_s=30).output.strip()

    return say


def server(kept: PenProgram, code: str, port: int | None = 9000, **more: object) -> PenProgram:
    return replace(kept, argv=("python3", "-c", textwrap.dedent(code)), port=port, **more)


LISTEN = """
import socket, os
listener = socket.create_server(("127.0.0.1", 9000))
while True:
    caller, _ = listener.accept()
    try:
        caller.sendall(str(os.getpid()).encode())
        if caller.recv(9) == b"die":
            os._exit(3)
    except ConnectionError:
        pass
    caller.close()
"""


def test_a_pen_has_no_interface_but_loopback(run: Callable[[str], str]) -> None:
    assert run("import socket; print(socket.if_nameindex())") == "[(1, 'lo')]"


@pytest.mark.parametrize("target", ["('192.0.2.1', 80)", "('8.8.8.8', 53)", "('10.0.0.1', 22)"])
def test_a_process_in_a_pen_cannot_dial_out(run: Callable[[str], str], target: str) -> None:
    code = f"""
    import socket
    try:
        socket.create_connection({target}, 5)
    except OSError as error:
        print(error.strerror)
    """
    assert run(code) == "Network is unreachable"


def test_a_service_of_the_host_on_loopback_is_not_reached(run: Callable[[str], str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code = f"""
        import socket
        try:
            socket.create_connection(("127.0.0.1", {port}), 5)
        except OSError as error:
            print(type(error).__name__)
        """
        assert run(code) == "ConnectionRefusedError"


@pytest.mark.parametrize("family", [1, 17, 40])  # by path, packets, to a hypervisor
def test_sockets_that_a_network_namespace_does_not_hold_are_refused(
    run: Callable[[str], str], family: int
) -> None:
    code = f"""
    import socket
    try:
        socket.socket({family}, socket.SOCK_STREAM)
    except OSError as error:
        print(error.errno)
    """
    assert run(code) == "97"


def test_a_socket_in_the_readable_project_is_no_way_out(
    run: Callable[[str], str], project: Path
) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        before = os.getcwd()
        os.chdir(project)
        try:
            listener.bind("agent.sock")
        finally:
            os.chdir(before)
        listener.listen()
        code = f"""
        import socket
        try:
            socket.socket(socket.AF_UNIX).connect({str(project / "agent.sock")!r})
            print("out")
        except OSError:
            print("no")
        """
        assert run(code) == "no"


def test_namespaces_and_rings_that_would_go_around_the_filter_are_refused(
    run: Callable[[str], str],
) -> None:
    code = """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    def failed(*words):
        return libc.syscall(*words) == -1
    print(failed(425, 4, ctypes.create_string_buffer(256)), libc.unshare(0x10000000) == -1)
    """
    assert run(code) == "True True"


def test_only_the_own_directory_and_tmp_can_be_written(
    run: Callable[[str], str], project: Path, tmp_path: Path
) -> None:
    code = f"""
    for path in ("/usr/x", "/etc/x", "/x", "/dev/x", {str(project / "x")!r}, "/pen/x", "/tmp/x"):
        try:
            open(path, "w").write("x")
            print(path)
        except OSError:
            pass
    """
    assert run(code).split() == ["/pen/x", "/tmp/x"]
    assert (tmp_path / "own" / "x").read_text() == "x"
    assert not Path("/tmp/x").exists() or Path("/tmp/x").read_text() != "x"


def test_settings_of_the_kernel_cannot_be_opened_for_writing(run: Callable[[str], str]) -> None:
    code = """
    import os
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/swappiness", "/proc/sysrq-trigger"):
        try:
            os.close(os.open(path, os.O_WRONLY))
            print(path)
        except OSError:
            pass
    """
    assert run(code) == ""


def test_a_file_that_would_run_as_its_owner_cannot_be_made(run: Callable[[str], str]) -> None:
    code = """
    import os
    open("/pen/f", "w").close()
    try:
        os.chmod("/pen/f", 0o4755)
    except OSError as error:
        print(error.errno)
    """
    assert run(code) == "1"


def test_dot_files_of_the_project_are_not_shown(run: Callable[[str], str], project: Path) -> None:
    (project / ".env").write_text("KEY=secret")
    (project / ".aws").mkdir()
    (project / ".aws" / "credentials").write_text("secret")
    (project / "app.py").write_text("shown")
    code = f"""
    import os
    for top, _, files in os.walk({str(project)!r}):
        for name in files:
            print(name, open(os.path.join(top, name)).read())
    """
    seen = run(code)
    assert "app.py shown" in seen
    assert "secret" not in seen


def test_dot_files_of_a_home_inside_the_project_are_not_shown(
    run: Callable[[str], str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "me" / ".ssh").mkdir(parents=True)
    (project / "me" / ".ssh" / "id_ed25519").write_text("secret")
    monkeypatch.setenv("HOME", str(project / "me"))
    assert run(f"import os; print(os.listdir({str(project / 'me' / '.ssh')!r}))") == "[]"


def test_the_state_of_paddock_is_not_shown(
    run: Callable[[str], str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "state" / "keys").mkdir(parents=True)
    monkeypatch.setenv("PADDOCK_HOME", str(project / "state"))
    assert run(f"import os; print(os.listdir({str(project / 'state')!r}))") == "[]"


def test_a_project_that_is_the_whole_root_is_refused(kept: PenProgram) -> None:
    with pytest.raises(InvalidInput, match="root directory"):
        run_once(replace(kept, mounts=replace(kept.mounts, project=Path("/"))))


def test_nothing_of_the_environment_comes_along(
    run: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    seen = run("import os; print(sorted(os.environ))")
    assert "AWS" not in seen
    assert "PADDOCK_STATE" in seen


def test_other_processes_of_the_host_are_not_seen(run: Callable[[str], str]) -> None:
    seen = run("import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]))")
    assert int(seen) <= 4


def test_memory_beyond_the_limit_is_not_given(kept: PenProgram) -> None:
    words = ("python3", "-c", "x = bytearray(512 << 20)")
    limits = PenLimits(memory_bytes=128 << 20)
    done = run_once(replace(kept, argv=words, limits=limits))
    assert done.code != 0
    assert "MemoryError" in done.output


def test_a_program_that_does_not_end_is_ended(kept: PenProgram) -> None:
    with pytest.raises(StandInFailed, match="did not end within"):
        run_once(replace(kept, argv=("sleep", "1000")), timeout_s=1)


async def call(pen: Pen, word: bytes = b"") -> bytes:
    loop = asyncio.get_running_loop()
    with await pen.connect() as caller:
        async with asyncio.timeout(10):
            answer = await loop.sock_recv(caller, 100)
            if word:
                await loop.sock_sendall(caller, word)
                with contextlib.suppress(ConnectionError):
                    await loop.sock_recv(caller, 100)
    return answer


async def ended(pen: Pen) -> None:
    for _ in range(1000):
        if not pen.is_running:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it runs on")


@contextlib.asynccontextmanager
async def penned(kept: PenProgram, directory: Path):  # type: ignore[no-untyped-def]
    pen = Pen(kept, directory)
    try:
        yield pen
    finally:
        await pen.end()


def test_a_program_on_loopback_is_called_through_its_warden(
    kept: PenProgram, tmp_path: Path
) -> None:
    async def main() -> None:
        async with penned(server(kept, LISTEN), tmp_path / "pen") as pen:
            assert (await call(pen)).isdigit()

    asyncio.run(main())


def test_a_long_directory_is_no_trouble_for_its_sockets(kept: PenProgram, tmp_path: Path) -> None:
    code = """
    import os, socket
    listener = socket.socket(fileno=int(os.environ["PADDOCK_LISTENER"]))
    os.write(int(os.environ["PADDOCK_READY"]), b"ready")
    while True:
        listener.accept()[0].sendall(b"hello")
    """

    async def main() -> None:
        directory = tmp_path / ("long" * 30)
        async with penned(server(kept, code, port=None), directory) as pen:
            assert await call(pen) == b"hello"

    asyncio.run(main())


def test_a_process_that_died_is_started_anew_three_times_and_no_more(
    kept: PenProgram, tmp_path: Path
) -> None:
    async def main() -> None:
        async with penned(server(kept, LISTEN), tmp_path / "pen") as pen:
            for _ in range(4):
                await call(pen, b"die")
                await ended(pen)
            with pytest.raises(StandInFailed, match="too often"):
                await call(pen)

    asyncio.run(main())


def test_one_that_ends_before_it_is_ready_is_quoted(kept: PenProgram, tmp_path: Path) -> None:
    async def main() -> None:
        code = "import sys; sys.exit('there is no database file')"
        async with penned(server(kept, code), tmp_path / "pen") as pen:
            with pytest.raises(StandInFailed, match="there is no database file"):
                await pen.connect()

    asyncio.run(main())


def test_one_that_is_never_ready_is_given_up(kept: PenProgram, tmp_path: Path) -> None:
    async def main() -> None:
        code = "print('still loading', flush=True); import time; time.sleep(1000)"
        slow = server(kept, code, ready_s=1.0)
        async with penned(slow, tmp_path / "pen") as pen:
            with pytest.raises(
                StandInFailed, match=r"not ready within 1 s; it said: still loading"
            ):
                await pen.connect()
            assert not pen.is_running

    asyncio.run(main())


def test_a_program_that_is_not_there_is_named(kept: PenProgram, tmp_path: Path) -> None:
    async def main() -> None:
        missing = replace(kept, argv=("no-such-program",), port=9000)
        async with penned(missing, tmp_path / "pen") as pen:
            with pytest.raises(StandInFailed, match="cannot start no-such-program"):
                await pen.connect()

    asyncio.run(main())


def test_what_a_process_says_is_kept_up_to_a_limit(kept: PenProgram, tmp_path: Path) -> None:
    code = "import sys\nfor n in range(40000):\n    print('line', n)\nsys.stdout.flush()\n" + LISTEN

    async def main() -> None:
        async with penned(server(kept, code), tmp_path / "pen") as pen:
            await call(pen)
            assert pen.output().rstrip().endswith("line 39999")
            assert (tmp_path / "pen" / "said.log").stat().st_size <= 256 << 10

    asyncio.run(main())


def test_a_pen_that_is_held_still_does_nothing(kept: PenProgram, tmp_path: Path) -> None:
    code = "import threading, time\ndef write():\n    n = 0\n    while True:\n        n += 1\n"
    code += "        open('/pen/n', 'w').write(str(n))\n        time.sleep(0.001)\n"
    code += "threading.Thread(target=write).start()\n" + LISTEN

    async def main() -> None:
        async with penned(server(kept, code), tmp_path / "pen") as pen:
            await call(pen)
            async with pen.frozen():
                before = (tmp_path / "own" / "n").stat().st_mtime_ns
                await asyncio.sleep(0.2)
                assert (tmp_path / "own" / "n").stat().st_mtime_ns == before
            assert (await call(pen)).isdigit()

    asyncio.run(main())


def test_all_in_a_pen_end_with_it(kept: PenProgram, tmp_path: Path) -> None:
    mark = f"sleep-{os.getpid()}-ends"
    code = (
        f"import subprocess; subprocess.Popen(['sleep', '1000'], env={{'M': {mark!r}}})\n" + LISTEN
    )

    async def main() -> None:
        async with penned(server(kept, code), tmp_path / "pen") as pen:
            await call(pen)
            assert list(marked(mark))

    asyncio.run(main())
    eventually(lambda: not list(marked(mark)), 10, "all of the pen has ended")


def test_nothing_outlives_a_host_that_is_killed(tmp_path: Path, project: Path) -> None:
    mark = f"sleep-{os.getpid()}-killed"
    inner = (
        f"import subprocess; subprocess.Popen(['sleep', '1000'], env={{'M': {mark!r}}})\n" + LISTEN
    )
    host = f"""
import asyncio, pathlib
from paddock.world.pen.launch import PenProgram
from paddock.world.pen.pen import Pen
from paddock.world.pen.mounts import PenMounts
async def main():
    walls = PenMounts(pathlib.Path({str(tmp_path / "own")!r}))
    kept = PenProgram(("python3", "-c", {inner!r}), walls, port=9000)
    pen = Pen(kept, pathlib.Path({str(tmp_path / "pen")!r}))
    caller = await pen.connect()
    print("ready", flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", host], stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            assert list(marked(mark))
        finally:
            process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while list(marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not list(marked(mark))


def test_a_program_cannot_take_sockets_from_its_warden(kept: PenProgram, tmp_path: Path) -> None:
    look = """
    import os
    warden = f"/proc/{os.getppid()}"
    found = []
    for path in [f"{warden}/mem", f"{warden}/environ", *(f"{warden}/fd/{n}" for n in range(32))]:
        for way in (os.readlink, lambda one: os.open(one, os.O_RDWR), lambda one: open(one).read()):
            try:
                found.append((path, way(path)))
            except (OSError, ValueError):
                pass
    print("found", found, flush=True)
    """
    code = textwrap.dedent(look) + LISTEN

    async def main() -> None:
        async with penned(server(kept, code), tmp_path / "pen") as pen:
            await call(pen)
            assert pen.output() == "found []\n"

    asyncio.run(main())


def test_an_environment_runs_however_its_base_is_linked_and_shows_nothing_beside_it(
    kept: PenProgram, tmp_path: Path
) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    real = Path(os.path.realpath(sys.executable))
    home = tmp_path / "home"
    bin_ = home / ".local" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "secret").write_text("beside it")
    (home / "python").symlink_to(real.parent.parent)
    (bin_ / "python3").symlink_to(home / "python" / "bin" / real.name)
    for name in ("linked", "copied"):
        venv = home / name
        site = venv / "lib" / version / "site-packages"
        site.mkdir(parents=True)
        (site / "own_module.py").write_text("print('of the environment')")
        (venv / "bin").mkdir()
        (venv / "pyvenv.cfg").write_text(f"home = {bin_}\n")
        if name == "linked":
            (venv / "bin" / "python").symlink_to(bin_ / "python3")
        else:
            shutil.copy(real, venv / "bin" / "python")
        python = find(venv / "bin" / "python")
        code = f"import own_module, os; print(os.listdir({str(bin_)!r}))"
        asked = replace(kept, argv=(str(python.path), "-c", code), python=python)
        assert run_once(asked, timeout_s=30).output == "of the environment\n['python3']\n", name


def test_what_serves_in_a_pen_needs_the_standard_library_alone() -> None:
    source = str(Path(paddock.__file__).parent.parent)
    program = "import sys; sys.path.insert(0, sys.argv[1]); import paddock.world.pen.app_server"
    subprocess.run([sys.executable, "-I", "-S", "-c", program, source], check=True, timeout=30)


def test_an_interpreter_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no Python"):
        find(tmp_path / "python")


def marked(mark: str) -> Iterator[int]:
    """Processes of the host with this in their environment."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                yield int(path.parent.name)


def test_many_dot_files_leave_the_state_of_paddock_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    home = project / "someone"
    state = home / "state"
    state.mkdir(parents=True)
    for number in range(400):
        (project / f".{number}").touch()
        (home / f".{number}").touch()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PADDOCK_HOME", str(state))
    words = bwrap_arguments(PenMounts(own=tmp_path / "own", project=project), "bwrap", {}, 3)
    assert words[words.index(str(state)) - 1] == "--tmpfs"
