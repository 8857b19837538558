"""Trust on first use: what a paddock file asks of the host holds only when its user agreed to it.

A paddock file may come with a cloned repository. Most of it only limits the agent, but some parts
act on the host: secrets that a command, a file or a keyring tells, mounts that the agent writes to,
and whatever is shown to it from outside of the project. Those parts are the file's *requests*. They
are put into words for the user and hashed; an agreement is kept for the file's real path and that
digest, so that another request, or another destination for a secret, is asked about again. The
directory that paths in the file start from is hashed too: a link to a trusted file elsewhere would
run other scripts.

What is checked is the very policy that is used afterwards: the file is read once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from paddock.model.errors import NotTrusted
from paddock.model.printable import printable
from paddock.model.spec import MountMode
from paddock.policy.decide import Policy
from paddock.policy.network import plain_network
from paddock.policy.secrets import SecretScheme, SecretTerms, plain_secret
from paddock.policy.terms import Terms
from paddock.policy.world import plain_world
from paddock.state.home import Home
from paddock.state.tool_config import (
    MAX_FILES_IN_DIRECTORY,
    Governing,
    existing_directories,
    existing_files,
    existing_paths,
    files_below,
    names_too_much,
)
from paddock.state.trusted_files import TrustedFiles

# Every sandbox and every stand-in sees these.
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/", "/libx32/")
_SHOWN, _MAX_SHOWN = 8, 1000  # whoever is asked sees all of it


class TrustRequest(msgspec.Struct, frozen=True):
    """One thing that a paddock file asks of the host, in words and as what is hashed."""

    text: str
    content: Any


Ask = Callable[[str, Sequence[TrustRequest]], bool]


class Trust(msgspec.Struct, frozen=True):
    """A caller's way to decide about files that nobody has agreed to yet: `is_given` for this
    time, or by asking a person, whose yes is kept. Without either they are refused."""

    is_given: bool = False
    ask: Ask | None = None


NO_TRUST = Trust()
GIVEN = Trust(is_given=True)


def check_trust(policy: Policy, trust: Trust = NO_TRUST, *, file: str | None = None) -> None:
    """Return if the user agreed to all that the policy asks of the host; raise NotTrusted if not.
    `file` is what the policy comes from, if it does not say so; one from no file is the caller's
    own."""
    path = policy.terms.file or file
    if path is not None and not trust.is_given:
        check_requests(path, requests_of(policy), trust, base=policy.terms.base)


def check_requests(
    path: str, requests: Sequence[TrustRequest], trust: Trust, *, base: str | None = None
) -> None:
    """Return if the user agreed that a file may have all of the requests; raise NotTrusted if
    not. Paths in the file start from `base`, or from its own directory."""
    if not requests or trust.is_given:
        return
    path = os.path.abspath(path)
    store, digest = TrustedFiles(Home.find()), digest_of(requests, base or os.path.dirname(path))
    if store.has(os.path.realpath(path), digest):
        return
    if trust.ask is None or not trust.ask(path, requests):
        shown = [f"  - {printable(one.text, _MAX_SHOWN)}" for one in requests[:_SHOWN]]
        if len(requests) > _SHOWN:
            shown.append(f"  - and {len(requests) - _SHOWN} more")
        raise NotTrusted(
            "\n".join(
                [f"nobody has agreed to what {printable(path)} asks of this machine:", *shown]
            ),
            hint=f"read it, then: paddock trust {printable(shlex.quote(path))}"
            " (or --trust this time)",
        )
    store.add(os.path.realpath(path), digest, [one.text for one in requests])


def remember(policy: Policy) -> None:
    """Keep an agreement to all that the policy of a file asks for now."""
    requests = requests_of(policy)
    if requests and policy.terms.file is not None:
        texts = [one.text for one in requests]
        path = os.path.abspath(policy.terms.file)
        digest = digest_of(requests, policy.terms.base or os.path.dirname(path))
        TrustedFiles(Home.find()).add(os.path.realpath(path), digest, texts)


def digest_of(requests: Sequence[TrustRequest], base: str) -> str:
    """Return the SHA-256 of the requests, whatever their order, of a file whose paths start from
    the directory `base`."""
    plain = sorted(json.dumps([one.text, one.content], sort_keys=True) for one in requests)
    text = "\n".join([*plain, os.path.realpath(base)])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def requests_of(policy: Policy) -> tuple[TrustRequest, ...]:
    """Return what the policy asks of the host."""
    terms = policy.terms
    project = os.path.realpath(terms.base or os.getcwd())
    return (*_secrets(terms, project), *_mounts(terms, project), *_stand_ins(terms, project))


def shown_outside(
    paths: Iterable[str | os.PathLike[str]], *projects: str
) -> tuple[TrustRequest, ...]:
    """Return a request for each path that the agent is shown from outside of all the projects."""
    real = [os.path.realpath(project) for project in projects]
    found = sorted({os.path.realpath(path) for path in paths})
    outside = [path for path in found if not any(_is_within(path, place) for place in real)]
    return tuple(TrustRequest(f"show the agent {path}", []) for path in outside)


def _secrets(terms: Terms, project: str) -> Iterator[TrustRequest]:
    # Where names lead, and who may vouch for them, is a part of where a secret goes.
    network = plain_network(terms.network) if terms.network is not None else {}
    ca = terms.network.ca if terms.network is not None else None
    where = {"hosts": network.get("hosts"), "ca": ca, "ca content": _digest(ca) if ca else None}
    for one in terms.secrets.values():
        text = _secret_text(one, project)
        if text is not None:
            to = ", ".join(str(host) for host in one.to)
            content = [plain_secret(one), where, *_scripts(one, project)]
            yield TrustRequest(f"{text}, for secret {one.name}, sent to {to}", content)


def _secret_text(one: SecretTerms, project: str) -> str | None:
    match one.scheme:
        case SecretScheme.COMMAND:
            return f"run on this machine: {shlex.join(one.command)}"
        case SecretScheme.FILE:
            place = os.path.join(project, os.path.expanduser(one.place))
            return f"read the file {os.path.realpath(place)}"
        case SecretScheme.KEYRING:
            return f"ask the keyring for {one.place}"
        case SecretScheme.ENV:
            return None  # named variables of the environment, as docs/paddock-file.md says


def _scripts(one: SecretTerms, project: str) -> Iterator[list[str | None]]:
    """Return where each path that a command names in the project, or in the repository around it,
    leads to, with a hash of what is there: another content is another program."""
    if one.scheme is not SecretScheme.COMMAND:
        return
    places = _around(project)
    named = Governing(None, project, {"secrets": {one.name: {"command": list(one.command)}}})
    if names_too_much(named):
        raise NotTrusted(
            f"the command of secret {one.name} has too many words to look for its files",
            hint="put it into a script, or agree for this time with --trust",
        )
    files = set(existing_files(named))
    for directory in existing_directories(named):
        if not any(_is_within(os.path.realpath(directory), place) for place in places):
            files.add(directory)
            continue
        below = files_below(directory)
        if below is None:
            raise NotTrusted(
                f"the command of secret {one.name} names the directory {printable(directory)}, "
                f"which has more than {MAX_FILES_IN_DIRECTORY} files: too many to agree to",
                hint="name the program itself, or agree for this time with --trust",
            )
        files.update(below)
    for path in sorted(files):
        real = os.path.realpath(path)
        if any(_is_within(real, place) for place in places):
            # An empty file is no program: a command that only leaves a mark stays the same.
            if os.path.isfile(real) and os.path.getsize(real):
                yield [path, real, _digest(real)]
        elif any(_is_within(path, place) for place in places):
            yield [path, real, None]  # a link out of the project: what is there is the user's own


def _around(project: str) -> list[str]:
    """Return the directory of a paddock file, and the repositories around it."""
    places, place = [project], project
    while place != "/":
        if os.path.lexists(os.path.join(place, ".git")):
            places.append(place)
        place = os.path.dirname(place)
    return places


def _mounts(terms: Terms, project: str) -> Iterator[TrustRequest]:
    for mount in terms.sandbox.spec.mounts:
        writes = mount.mode is MountMode.WRITE
        content = [mount.target, mount.mode.value, list(mount.hidden)]
        if mount.volume is not None:
            verb = "write to" if writes else "read"
            yield TrustRequest(f"let the agent {verb} the volume {mount.volume}", content)
            continue
        source = os.path.realpath(os.path.expanduser(mount.source or "."))
        if writes:
            yield TrustRequest(f"let the agent write to {source}", content)
        elif not _is_within(source, project):
            yield TrustRequest(f"show the agent {source}", content)
    template = terms.sandbox.spec.template
    if template.startswith("dir:"):
        source = os.path.realpath(template[4:])
        if not _is_within(source, project):
            yield TrustRequest(f"use {source} as the root of the sandbox", [])


def _stand_ins(terms: Terms, project: str) -> Iterator[TrustRequest]:
    """Yield requests for files outside of the project that stand-ins read, and agents through
    them."""
    if terms.world is None:
        return
    named = Governing(terms.file, project, {"world": plain_world(terms.world)})
    found = {os.path.realpath(path) for path in existing_paths(named, project)}
    for path in sorted(found):
        if not _is_within(path, project) and not path.startswith(_SYSTEM):
            yield TrustRequest(f"show a stand-in {path}", [])


def _is_within(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def _digest(path: str) -> str | None:
    path = os.path.expanduser(path)
    if not os.path.isfile(path):  # a pipe would be waited for
        return None
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
