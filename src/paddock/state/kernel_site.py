"""A directory with IPython and what it needs, for sandboxes that have none of their own.

It is copied from the distributions of the running interpreter into a cache, once for each set of
versions and Python. It has pure Python only: the interpreter inside may be another one. Nothing
here runs a cell. `packaging` is loaded when the distributions are looked for.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path, PurePath

import msgspec

from paddock.model.errors import HostCannot
from paddock.model.version import install_command
from paddock.state.home import SITES, mark_used

ROOT = "ipython"
_LAYOUT = 1  # counted up when the same versions must be copied in another way
_BUILDING = ".building-"
_RUN_LIMIT_S = 120.0
# Bytes that another interpreter cannot use, and what IPython runs without: jedi's bundled stubs are
# 30 MB for a completion that nobody asks for here, and tests are tests.
_SKIPPED_SUFFIXES = (".pyc", ".pyo", ".so", ".pyd", ".pyi", ".pth")
_SKIPPED_DIRECTORIES = {"__pycache__", "tests"}
_SKIPPED_DATA = ("jedi", "third_party")
# matplotlib finds its inline backend by entry point; some packages read their own version.
_KEPT_METADATA = {"METADATA", "PKG-INFO", "entry_points.txt"}
_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")
_FACTS = """import json, os, platform, sys
print(json.dumps({"python_full_version": platform.python_version(),
 "python_version": "%d.%d" % sys.version_info[:2], "os_name": os.name,
 "sys_platform": sys.platform, "platform_machine": platform.machine(),
 "platform_system": platform.system(), "platform_release": platform.release(),
 "platform_version": platform.version(), "implementation_name": sys.implementation.name,
 "platform_python_implementation": platform.python_implementation(),
 "implementation_version": platform.python_version(), "tag": sys.implementation.cache_tag}))"""
_IMPORTABLE = """import importlib, json, sys
sys.path.append(sys.argv[1])
broken = {}
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        broken[name] = f"{type(error).__name__}: {error}"
print(json.dumps(broken))"""


class _Part(msgspec.Struct, frozen=True):
    """One distribution to copy: the files, by their place below site-packages."""

    files: tuple[tuple[PurePath, Path], ...]
    is_compiled: bool

    @property
    def modules(self) -> tuple[str, ...]:
        """Return the names of its top-level modules."""
        tops = {place.parts[0] for place, _ in self.files if place.suffix == ".py"}
        return tuple(sorted(top.removesuffix(".py") for top in tops))


def kernel_site(cache: Path, python: str = "/usr/bin/python3") -> Path | None:
    """Return the directory for the interpreter `python`, in `sites` of the cache. It is built when
    it is missing.

    Every sandbox sees `sites`. So the lock and what is half built lie beside it: an agent could
    hold the one for ever, and look into the other.
    Returns None when IPython is not installed on the host; `kernel_site_hint()` says what to do.
    Raises HostCannot when the installed IPython does not run on that interpreter.
    """
    facts = _facts(python)
    dists = _collect(facts)
    if not dists:
        return None
    target = cache / SITES / f"kernel-site-{facts['tag']}-{_digest(dists, facts)}"
    if mark_used(target):
        if target.stat().st_mode & 0o005 != 0o005:  # somebody closed all of PADDOCK_HOME
            _open_to_all(target)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    target.parent.chmod(0o755)  # for the uids of sandboxes, whatever the umask is
    with _locked(cache / ".kernel-site.lock"):
        if not target.is_dir():  # another process may have built it while we waited
            _build(cache, target, [_part(dist) for dist in dists.values()], python)
    return target


def kernel_site_hint() -> str:
    """Return the sentence to show when there is no IPython to bring along."""
    return (
        f"running code needs IPython: install it with `{install_command('code')}`, "
        "or use a template whose python3 has IPython"
    )


@lru_cache(maxsize=16)
def _facts(python: str) -> dict[str, str]:
    """Ask the interpreter inside what environment markers depend on."""
    facts: dict[str, str] = json.loads(_run([python, "-I", "-c", _FACTS]))
    return facts


def _collect(facts: Mapping[str, str]) -> dict[str, Distribution]:
    """Return IPython and all that it requires there, by name; nothing when it is not installed."""
    try:
        root = importlib.metadata.distribution(ROOT)
    except PackageNotFoundError:
        return {}
    wanted = root.metadata["Requires-Python"] or ""  # as the installed file says it, or nothing
    if not _is_supported(facts["python_full_version"], wanted):
        raise HostCannot(
            f"IPython {root.version} needs Python {wanted}, and the sandbox's interpreter is "
            f"{facts['python_full_version']}",
            hint="use a template with a newer python3, or install an older ipython on the host",
        )
    from packaging.utils import canonicalize_name

    dists: dict[str, Distribution] = {}
    queue = [root]
    while queue:
        dist = queue.pop()
        name = canonicalize_name(dist.metadata["Name"])
        if name not in dists:
            dists[name] = dist
            queue.extend(_required(dist, facts))
    return dict(sorted(dists.items()))


def _required(dist: Distribution, facts: Mapping[str, str]) -> Iterator[Distribution]:
    for line in dist.requires or ():
        name = required_name(line, facts)
        # A requirement of the sandbox's Python that the host's does not have cannot be brought
        # along; whether IPython runs without it is tried when the directory is built.
        with suppress(PackageNotFoundError):
            if name is not None:
                yield importlib.metadata.distribution(name)


def required_name(line: str, facts: Mapping[str, str]) -> str | None:
    """Return the name of the distribution in a requirement, or None if the requirement does not
    apply where `facts` hold. One that cannot be read does, so that nothing needed is left out."""
    from packaging.markers import UndefinedComparison
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        name = _NAME.match(line)
        return name[1] if name else None
    try:
        # An empty extra: what only extras ask for is not wanted.
        environment = {**facts, "extra": ""}
        is_wanted = requirement.marker is None or requirement.marker.evaluate(environment)
    except UndefinedComparison:
        is_wanted = True
    return requirement.name if is_wanted else None


def _is_supported(version: str, bounds: str) -> bool:
    """Return whether the version of an interpreter is within bounds. A pre-release counts as the
    release that it comes before, and bounds that cannot be read bound nothing."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import Version

    try:
        # Python's own development versions end with a plus sign, which is no valid version.
        return SpecifierSet(bounds).contains(Version(version.rstrip("+")).base_version)
    except InvalidSpecifier:
        return True


def _part(dist: Distribution) -> _Part:
    files, is_compiled = [], False
    for place, source in _sources(dist):
        is_compiled |= place.suffix in (".so", ".pyd")
        if _is_wanted(place):
            files.append((place, source))
    return _Part(tuple(sorted(files)), is_compiled)


def _sources(dist: Distribution) -> Iterator[tuple[PurePath, Path]]:
    """Yield every file below site-packages, from the record, or by looking where there is none."""
    if dist.files is not None:
        for file in dist.files:
            if ".." not in file.parts and not file.is_absolute():
                yield PurePath(file), Path(str(file.locate()))
        return
    tops = (dist.read_text("top_level.txt") or dist.metadata["Name"].replace("-", "_")).split()
    base = Path(str(dist.locate_file("")))
    for top in tops:
        for source in (base / f"{top}.py", *(base / top).rglob("*")):
            if source.is_file():
                yield source.relative_to(base), source


def _is_wanted(place: PurePath) -> bool:
    if place.parts[0].endswith((".dist-info", ".egg-info")):
        return len(place.parts) == 2 and place.name in _KEPT_METADATA
    if place.suffix in _SKIPPED_SUFFIXES:
        return False
    if place.parts[:2] == _SKIPPED_DATA:
        return False
    return not _SKIPPED_DIRECTORIES.intersection(place.parts)


def _digest(dists: Mapping[str, Distribution], facts: Mapping[str, str]) -> str:
    versions = {name: dist.version for name, dist in dists.items()}
    content = json.dumps([_LAYOUT, facts["python_full_version"], versions])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _build(cache: Path, target: Path, parts: list[_Part], python: str) -> None:
    for left in cache.glob(f"{_BUILDING}*"):  # ours to remove: we hold the lock
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=cache))
    try:
        for part in parts:
            _copy(part, work)
        _drop_unusable(work, parts, python)
        # -s and -p: the code objects must name the place where they will be, not this one.
        compile_all = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
        places = ["-s", str(work), "-p", str(target), str(work)]
        _run([python, "-I", *compile_all, *places])
        _open_to_all(work)
        work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _copy(part: _Part, work: Path) -> None:
    for place, source in part.files:
        if source.is_file():
            target = work / place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def _drop_unusable(work: Path, parts: list[_Part], python: str) -> None:
    """Remove what cannot live without its compiled half, then make sure that IPython can."""
    compiled = {module: part for part in parts if part.is_compiled for module in part.modules}
    for module in _broken(python, work, list(compiled)):
        # Whole directories: an empty one would import as a package with nothing in it.
        for top in {place.parts[0] for place, _ in compiled[module].files}:
            shutil.rmtree(work / top, ignore_errors=True)
    broken = _broken(python, work, ["IPython.core.interactiveshell", "stack_data"])
    if broken:
        raise HostCannot(
            f"the host's IPython does not run on {python}: {'; '.join(broken.values())}",
            hint="install ipython for that Python inside the sandbox's template",
        )


def _broken(python: str, work: Path, modules: list[str]) -> dict[str, str]:
    answer = _run([python, "-I", "-B", "-c", _IMPORTABLE, str(work), *modules])
    broken: dict[str, str] = json.loads(answer.splitlines()[-1])
    return broken


def _open_to_all(work: Path) -> None:
    """Let everybody read it: the sandbox runs as another user than the one who built this, whatever
    the umask was. The top comes last, because it stands for the whole."""
    for directory, _, files in os.walk(work, topdown=False):
        for name in files:
            os.chmod(os.path.join(directory, name), 0o644)
        os.chmod(directory, 0o755)  # noqa: S103 (nothing in it is secret)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(command: list[str]) -> str:
    hint = "give an interpreter that this machine can run"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostCannot(f"{command[0]} cannot be run: {error}", hint=hint) from None
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip()[-500:]
        raise HostCannot(f"{command[0]} failed with {done.returncode}: {output}", hint=hint)
    return done.stdout
