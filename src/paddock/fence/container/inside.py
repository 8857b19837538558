"""The files that Paddock brings into every sandbox: the code interpreter's program, a synthetic
/etc, and a Python for roots that have none. They are built once into the cache, named by their
content, and mounted read-only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from paddock.fence.guest import agreed
from paddock.model.errors import HostCannot
from paddock.state.home import Home, mark_used, remove_tree

_GUEST = Path(__file__).parent.parent / "guest"
_KERNEL_MODULES = ("kernel", "kernel_link", "kernel_display")
_OLDEST_PYTHON = (3, 9)
# Links into /etc and data that programs in /usr expect; nothing here is private to the host.
_ETC_COPIES = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl/certs",
               "ssl/openssl.cnf", "ca-certificates.conf", "mime.types", "protocols", "services",
               "localtime", "magic", "bash.bashrc", "profile", "debian_version", "os-release",
               "java-17-openjdk", "fonts", "perl", "python3", "python3.11", "python3.12",
               "python3.13")  # fmt: skip
_CERTIFICATES = "ssl/certs/ca-certificates.crt"  # what curl, git, Go and OpenSSL read
_ETC_FILES = {
    "passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\n"
    "user:x:1000:1000:user:/home/user:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "host.conf": "multi on\n",
    "shells": "/bin/sh\n/bin/bash\n",
}


def kernel_code(home: Home, python: str) -> Path:
    """Return a directory with `kernel/` compiled for `python`, and mount points beside it."""

    def build(directory: Path) -> None:
        from shutil import copyfile  # what is built once, is loaded then

        for name in ("kernel", "site", "python"):  # the others are mount points
            (directory / name).mkdir()
        for name in _KERNEL_MODULES:
            copyfile(_GUEST / f"{name}.py", directory / "kernel" / f"{name}.py")
        _compile(python, directory / "kernel")

    return _built(home, f"inside-{_kernel_key(python)}", build)


@cache
def _kernel_key(python: str) -> str:
    sources = [(_GUEST / f"{name}.py").read_bytes() for name in _KERNEL_MODULES]
    info = os.stat(python)
    return _digest(python.encode(), str((info.st_mtime_ns, info.st_size)).encode(), *sources)


def synthetic_etc(home: Home) -> Path:
    """Return an /etc with what programs look up and nothing that is the host's own business."""

    def build(directory: Path) -> None:
        for name in _ETC_COPIES:
            _copy_public(Path("/etc") / name, directory / name)
        for name, content in _ETC_FILES.items():
            (directory / name).write_text(content)
        for name in ("hosts", "hostname"):
            (directory / name).symlink_to(f"/run/{name}")
        (directory / "resolv.conf").symlink_to(agreed.RESOLVER)
        _redirect_certificates(directory)
        (directory / "mtab").symlink_to("/proc/self/mounts")

    return _built(home, f"etc-{_etc_key()}", build)


@cache
def _etc_key() -> str:
    stamps = [f"{n}:{_stamp(n)}" for n in _ETC_COPIES]
    links = (agreed.RESOLVER, agreed.CERTIFICATES, agreed.HOST_CERTIFICATES)
    return _digest("\n".join((*stamps, *links)).encode(), repr(sorted(_ETC_FILES.items())).encode())


def _redirect_certificates(etc: Path) -> None:
    """Whom to trust is a sandbox's own matter; what the host trusts stands beside it."""
    here, own = etc / _CERTIFICATES, etc / os.path.relpath(agreed.HOST_CERTIFICATES, "/etc")
    here.parent.mkdir(parents=True, exist_ok=True)
    here.unlink(missing_ok=True)
    here.symlink_to(agreed.CERTIFICATES)
    from shutil import copyfile

    source = Path(os.path.realpath(Path("/etc", _CERTIFICATES)))
    if source.is_file() and source.stat().st_mode & 0o004:
        copyfile(source, own)


@cache
def system_interpreter() -> str | None:
    """/usr/bin/python3 where it is new enough for cells; it is in every host template."""
    python = "/usr/bin/python3"
    real = os.path.realpath(python)
    version = (_named_version(real) or _version(real)) if os.path.exists(real) else None
    return real if version and version >= _OLDEST_PYTHON else None


def interpreter_path() -> str:
    """Return the host's path of the Python that cells run on in a host template, to compile for."""
    return system_interpreter() or os.path.realpath(sys.executable)


def brought_interpreter(home: Home) -> Path:
    """Return a copy of an interpreter with its standard library and every shared object it
    loads."""
    python = interpreter_path()
    info = os.stat(python)
    key = _digest(python.encode(), str((info.st_mtime_ns, info.st_size)).encode(), b"2")

    def build(directory: Path) -> None:
        import shutil

        stdlib, tag = _query(python)
        for name in ("bin", "lib"):
            (directory / name).mkdir()
        shutil.copyfile(python, directory / "bin" / "python3")
        (directory / "bin" / "python3").chmod(0o755)
        target = directory / "lib" / tag
        skip = shutil.ignore_patterns("site-packages", "dist-packages", "test", "tests", "idlelib",
                                      "tkinter", "turtledemo", "ensurepip", "__pycache__",
                                      "config-*", "*.a", "pydoc_data", "lib2to3")  # fmt: skip
        shutil.copytree(stdlib, target, ignore=skip)
        _compile(python, target)
        extensions = list((target / "lib-dynload").glob("*.so"))
        for library in _libraries([Path(python), *extensions]):
            shutil.copyfile(library, directory / "lib" / library.name)
            (directory / "lib" / library.name).chmod(0o755)
        # The home is told by a landmark: lib/pythonX.Y/os.py beside bin.

    return _built(home, f"python-{key}", build)


def _built(home: Home, name: str, build: Callable[[Path], None]) -> Path:
    """Return the directory `name` of the cache, built if missing; several processes may race to
    it."""
    target = home.cache / name
    if mark_used(target):
        if target.stat().st_mode & 0o005 != 0o005:  # somebody closed all of PADDOCK_HOME
            _make_readable(target)
        return target
    from tempfile import mkdtemp

    temporary = Path(mkdtemp(prefix=".new-", dir=home.cache))
    try:
        build(temporary)
        _make_readable(temporary)
        with contextlib.suppress(OSError):  # another process was first: its result is the same
            temporary.rename(target)
    finally:
        if temporary.exists():
            remove_tree(temporary)
    return target


def _make_readable(top: Path) -> None:
    """Opens a tree to everybody; the top last, because it stands for the whole."""
    for directory, _, files in os.walk(top, topdown=False):
        for name in files:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755 if os.access(path, os.X_OK) else 0o644)
        os.chmod(directory, 0o755)


def _copy_public(source: Path, target: Path) -> None:
    """Copies what anybody may read; a private key under ssl, say, is left out."""
    if source.is_symlink():
        if not source.is_dir() or source.name == "localtime":
            with contextlib.suppress(OSError):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(os.readlink(source))
        return
    if source.is_dir() and source.stat().st_mode & 0o005 == 0o005:
        target.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            for child in source.iterdir():
                _copy_public(child, target / child.name)
    elif source.is_file() and source.stat().st_mode & 0o004:
        from shutil import copyfile

        target.parent.mkdir(parents=True, exist_ok=True)
        copyfile(source, target)


def _compile(python: str, directory: Path) -> None:
    program = (
        "import compileall, py_compile, sys;"
        "mode = py_compile.PycInvalidationMode.UNCHECKED_HASH;"
        "sys.exit(not compileall.compile_dir(sys.argv[1], quiet=2, invalidation_mode=mode))"
    )
    subprocess.run([python, "-I", "-S", "-c", program, str(directory)], check=False)


def _query(python: str) -> tuple[str, str]:
    program = (
        "import sys, os; print(os.path.dirname(os.__file__));"
        "print('python%d.%d' % sys.version_info[:2])"
    )
    done = subprocess.run([python, "-I", "-S", "-c", program], capture_output=True, text=True)
    lines = done.stdout.split("\n")
    if done.returncode != 0 or len(lines) < 2:
        raise HostCannot(f"the interpreter {python} does not run", hint="apt-get install python3")
    return lines[0], lines[1]


def _libraries(files: list[Path]) -> set[Path]:
    libraries: set[Path] = set()
    for file in files:
        listed = subprocess.run(["/usr/bin/ldd", str(file)], capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            paths = [w for w in line.split() if w.startswith("/")]
            libraries.update(Path(w) for w in paths if os.path.exists(w))
    # libpython may sit beside a relocatable interpreter; ldd has named it like any other.
    return {p for p in libraries if ".so" in p.name}


def _named_version(python: str) -> tuple[int, int] | None:
    """Return the version in a name such as python3.12. To ask the interpreter would take a third
    of the start of a sandbox."""
    match = re.fullmatch(r"python(\d+)\.(\d+)", os.path.basename(python))
    return (int(match[1]), int(match[2])) if match else None


def _version(python: str) -> tuple[int, int] | None:
    program = "import sys; print(*sys.version_info[:2])"
    done = subprocess.run([python, "-I", "-S", "-c", program], capture_output=True, text=True)
    numbers = done.stdout.split()
    if done.returncode != 0 or len(numbers) != 2:
        return None
    return int(numbers[0]), int(numbers[1])


def _stamp(name: str) -> str:
    try:
        return str(os.stat(f"/etc/{name}").st_mtime_ns)
    except OSError:
        return "-"


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())  # another way to build is another result
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:24]
