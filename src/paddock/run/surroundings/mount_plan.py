"""Decides what may be mounted, and collects what was asked for so far. Every finder asks here;
nothing else decides which part of the host an agent gets to see."""

from __future__ import annotations

import os
import posixpath

import msgspec

from paddock.model.errors import InvalidInput
from paddock.model.spec import mount_target
from paddock.run.surroundings.host import Host, is_of_system, is_within, names_in
from paddock.run.surroundings.needed_mounts import NeededMount
from paddock.run.surroundings.secret_files import is_secret_name, secret_files

MAX_PLACES = 80  # below the limit of a sandbox, so that the file's own mounts have room
_DEEP = (".local", ".cache")  # of the home: one program's own directory lies deeper there
_LEAST_PARTS, _LEAST_DEEP_PARTS = 3, 4
_UNITS = ("pyvenv.cfg", "conda-meta")  # what has one of these is one environment and no more
# Of the home. Whatever lies in them is not for an agent, however deep.
_CLOSED = frozenset({
    ".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".config", ".password-store",
    ".mozilla", ".thunderbird", ".pki", ".gsutil", ".oci", ".terraform.d", ".netrc", ".npm",
    ".paddock",
})  # fmt: skip
# No project, but where those of many lie. Nothing is written there.
_SHARED = frozenset({"/", "/home", "/tmp", "/var", "/var/tmp", "/opt", "/srv", "/mnt", "/media"})  # noqa: S108
_SECRET_PLACES = frozenset({".ssh", ".aws", ".gnupg", ".kube"})  # wherever they lie


class _Need(msgspec.Struct, frozen=True):
    source: str
    why: str
    is_source: bool  # the user's own files, which may have secrets anywhere among them
    only: frozenset[str] | None = None  # of a directory that has links: the names that are shown


class MountPlan:
    """The project and what else is needed, by the path inside."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.project = host.cwd
        self._needs: dict[str, _Need] = {}
        self.omitted: list[str] = []

    def need(self, path: str, why: str, *, is_source: bool = False) -> bool:
        """Ask for a directory or file, to be seen at its own path, and at its real path if that
        differs. Return False when it may not be mounted; `omitted` then says why."""
        written, real = os.path.normpath(path), os.path.realpath(path)
        if not os.path.exists(real):
            return False
        reason = self._why_never(real)
        if reason is not None:
            self.omit(written, why, reason)
            return False
        return all(
            self.is_visible(target) or self._add(target, _Need(real, why, is_source))
            for target in dict.fromkeys((written, real))
        )

    def need_link(self, link: str, why: str) -> bool:
        """Ask for a link that leads to a program, as a link: a virtual environment and a
        relocatable Python find their files by following it. Its directory is mounted, and every
        other name in it is hidden."""
        directory, name = os.path.split(os.path.normpath(link))
        real = os.path.realpath(directory)
        reason = self._why_never_links_of(real)
        if reason is not None:
            self.omit(link, why, reason)
            return False
        need = self._needs.get(directory)
        only = need.only if need is not None and need.only is not None else frozenset()
        return self._add(directory, _Need(real, why, False, only | {name}))

    def is_visible(self, path: str) -> bool:
        """Return whether this very path will exist inside. Links on the way to it do not count."""
        if is_of_system(path) or is_within(path, self.project):
            return True
        return any(_shows(target, need, path) for target, need in self._needs.items())

    def settle(self) -> tuple[NeededMount, ...]:
        """Return the mounts, none inside another; the project comes first and grows to what
        contains it."""
        for target, need in self._needs.items():
            if is_within(self.project, target) and need.is_source:
                self.project = target
        tops: dict[str, _Need] = {}
        for target in sorted(self._needs, key=lambda path: path.split("/")):
            if is_within(target, self.project):
                continue
            top = next((top for top in tops if is_within(target, top)), None)
            if top is not None:
                tops[top] = _with_name(tops[top], os.path.relpath(target, top).split("/")[0])
                continue
            if is_within(self.project, target):
                self.omit(target, self._needs[target].why, "the project itself lies in it")
                continue
            tops[target] = self._needs[target]
        if len(tops) > MAX_PLACES:
            raise InvalidInput(
                f"the command needs {len(tops)} places of the host, and {MAX_PLACES} can be had",
                hint="most come from packages that are linked: install them into the environment",
            )
        return (self._project(), *(_found(target, need) for target, need in tops.items()))

    def _add(self, target: str, need: _Need) -> bool:
        try:
            mount_target(target)
        except InvalidInput as error:
            self.omit(target, need.why, error.message.partition(": ")[2])
            return False
        self._needs[target] = need
        return True

    def _why_never(self, real: str) -> str | None:
        if any(is_within(home, real) for home in self._host.homes):
            return "it is the home directory or holds it"
        if is_secret_name(posixpath.basename(real)) and not _is_unit(real):
            return "its name says that it is secret"
        if not _SECRET_PLACES.isdisjoint(real.split("/")):
            return "it is among keys"
        return self._why_not_of_homes(real)

    def _why_never_links_of(self, real: str) -> str | None:
        """Return why a directory of which only links are shown may not be mounted; such a directory
        may be near the root."""
        if real in _SHARED or any(is_within(home, real) for home in self._host.homes):
            return "its directory is the home, or files of many lie there"
        inside = [os.path.relpath(real, home) for home in self._host.homes if is_within(real, home)]
        if any(path.split("/")[0] in _CLOSED for path in inside):
            return "it is among keys and settings of the home"
        if not _SECRET_PLACES.isdisjoint(real.split("/")):
            return "it is among keys"
        if not names_in(real):
            return "its directory cannot be read, or has too many names"
        return None

    def _why_not_of_homes(self, real: str) -> str | None:
        reasons = (
            _why_not_of_home(real, os.path.relpath(real, home).split("/"))
            for home in self._host.homes
            if is_within(real, home)
        )
        return next(filter(None, reasons), None)

    def omit(self, path: str, why: str, reason: str) -> None:
        """Remember what is not mounted and why, for the message when it is missed."""
        text = f"{path} ({why}): {reason}"
        if text not in self.omitted:
            self.omitted.append(text)

    def _project(self) -> NeededMount:
        why = "the project" if self.project == self._host.cwd else "the project and what it is in"
        return NeededMount(self.project, self.project, "overlay", why, secret_files(self.project))


def check_project(host: Host) -> None:
    """Refuse a project directory that would expose too much, or that cannot be mounted."""
    path = host.cwd
    if not os.path.isdir(path):
        raise InvalidInput(f"{path} is no directory to run in")
    if path in _SHARED or any(is_within(home, path) for home in host.homes):
        raise InvalidInput(
            f"{path} is a home directory or holds one, or is shared: the agent would see all of it",
            hint="make a directory for the agent, and run from there",
        )
    for home in host.homes:
        first, *rest = os.path.relpath(path, home).split("/")
        is_dot = first.startswith(".") and first != ".."
        if first in _CLOSED or (is_dot and not rest):
            raise InvalidInput(
                f"{path} holds settings and keys of the home, and is no project",
                hint="run from a directory of the agent's own",
            )
    try:
        mount_target(path)
    except InvalidInput as error:
        raise InvalidInput(
            f"{path} cannot be the project: {error.message}", hint="move it to another place"
        ) from None


def _why_not_of_home(real: str, parts: list[str]) -> str | None:
    if not parts[0].startswith("."):
        return None
    if parts[0] in _CLOSED:
        return "it is among keys and settings of the home"
    if not os.path.isdir(real):
        return None if len(parts) > 1 else "it is a dot file of the home"
    if _is_unit(real):
        return None
    least = _LEAST_DEEP_PARTS if parts[0] in _DEEP else _LEAST_PARTS
    return None if len(parts) >= least else "it is too much of a dot directory of the home"


def _is_unit(real: str) -> bool:
    return any(os.path.exists(os.path.join(real, name)) for name in _UNITS)


def _shows(target: str, need: _Need, path: str) -> bool:
    if need.only is None or not is_within(path, target):
        return is_within(path, target)
    return os.path.relpath(path, target).split("/")[0] in need.only


def _with_name(need: _Need, name: str) -> _Need:
    if need.only is None:
        return need
    return _Need(need.source, need.why, need.is_source, need.only | {name})


def _found(target: str, need: _Need) -> NeededMount:
    hidden: tuple[str, ...] = ()
    if need.only is not None:
        hidden = tuple(name for name in names_in(need.source) if name not in need.only)
    elif os.path.isdir(need.source):
        # An installed thing has its secrets, if somebody put any there, on top.
        hidden = secret_files(need.source, is_only_top=not need.is_source)
    return NeededMount(need.source, target, "read", need.why, hidden, os.path.isdir(need.source))
