"""The secrets of one sandbox. Their values live here, in memory of the host, and nowhere else: what
the sandbox, the journal and other processes get to know is a placeholder or a name.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping

import msgspec

from paddock.doors.network.secrets.scrubber import Scrubber
from paddock.doors.network.secrets.sources import checked, load
from paddock.journal.secrets.search import Needle
from paddock.model.errors import InvalidInput, SandboxError
from paddock.policy.secrets import SecretTerms
from paddock.state import revocations
from paddock.state.home import Home
from paddock.state.revocations import Mark

POLL_S = 0.5
_TOKEN = re.compile(r"[0-9a-f]{24}")


class Revoked(SandboxError):
    """Somebody took the secret from all sandboxes that were running."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the secret {name} was revoked")
        self.name = name


class _Value:
    """A text that no log, no copy and no report of a crash shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "<hidden>"

    def __reduce__(self) -> str:
        raise TypeError("the value of a secret is not copied")

    def reveal(self) -> str:
        return self._text


class Secret(msgspec.Struct, frozen=True):
    """One secret and what stands for it inside."""

    terms: SecretTerms
    token: str  # chance, by which the placeholder is known in any company
    mark: Mark | None
    needle: Needle  # finds the value
    _value: _Value

    @property
    def placeholder(self) -> str:
        return f"paddock_{self.terms.name}_{self.token}"


class SecretKeeper:
    """Gives out values, to the door alone, until they are revoked or the sandbox ends."""

    def __init__(self, home: Home, kept: Mapping[str, Secret] | None = None) -> None:
        self.loaded_at = time.time()
        self._home = home
        self._kept = dict(kept or {})
        self._lost: set[str] = set()
        self._is_closed = False
        self._sandbox_id: str | None = None
        self._scrubbers: dict[bool, Scrubber] = {}

    @classmethod
    def load(
        cls,
        home: Home,
        terms: Mapping[str, SecretTerms],
        environment: Mapping[str, str] = os.environ,
        tokens: Mapping[str, str] | None = None,
        without: Mapping[str, SecretTerms] | None = None,
        base: str | None = None,
    ) -> SecretKeeper:
        """Asks every source. Raises InvalidInput or HostCannot, and then nothing is kept. `tokens`
        are those of a run that is lived through again: its files have them. Of those in `without`
        there are placeholders only. `base` is the directory of the paddock file."""
        # Marked before it is loaded: who revokes in between means this value too.
        marks = {name: revocations.mark_of(home, name) for name in terms}
        values = {name: load(source, environment, base) for name, source in terms.items()}
        keeper = cls.of_values(home, terms, values, marks, tokens)
        if without:
            keeper._kept |= cls.without_values(home, without, tokens or {})._kept
        return keeper

    @classmethod
    def of_values(
        cls,
        home: Home,
        terms: Mapping[str, SecretTerms],
        values: Mapping[str, str],
        marks: Mapping[str, Mark | None] | None = None,
        tokens: Mapping[str, str] | None = None,
    ) -> SecretKeeper:
        """For values that are at hand."""
        if marks is None:
            marks = {name: revocations.mark_of(home, name) for name in terms}
        made = {
            name: _kept(terms[name], values[name], marks[name], (tokens or {}).get(name))
            for name in terms
        }
        return cls(home, made)

    @classmethod
    def without_values(
        cls, home: Home, terms: Mapping[str, SecretTerms], tokens: Mapping[str, str]
    ) -> SecretKeeper:
        """For a run in which nothing goes out: placeholders that stand for nothing."""
        values = {name: secrets.token_hex(16) for name in terms}
        # Marked as of now: that it was revoked before is no matter of what stands for nothing.
        return cls.of_values(home, terms, values, tokens=tokens)

    def __repr__(self) -> str:
        return f"<SecretKeeper of {', '.join(self._kept) or 'nothing'}>"

    def __reduce__(self) -> str:
        raise TypeError("the keeper of secrets is not copied")

    def __bool__(self) -> bool:
        """Return whether there are secrets; after `close` too, so that nobody takes the end for
        none."""
        return bool(self._kept) or self._is_closed

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._kept)

    def secret(self, name: str) -> Secret:
        self._check_open()
        secret = self._kept.get(name)
        if secret is None:
            raise InvalidInput(f"there is no secret {name!r:.80}")
        return secret

    def names_for(self, host: str) -> tuple[str, ...]:
        """Return the names of the secrets whose value a canonical host gets."""
        self._check_open()
        return tuple(name for name, secret in self._kept.items() if secret.terms.is_for(host))

    def value(self, name: str) -> str:
        """To be put into one request and forgotten. Raises Revoked."""
        if self.is_revoked(name):
            raise Revoked(name)
        return self.secret(name)._value.reveal()

    def is_revoked(self, name: str) -> bool:
        """Looked up at every call; once it is, it stays so."""
        if name in self._lost:
            return True
        if revocations.is_revoked(self._home, name, self.secret(name).mark):
            self._lost.add(name)
            return True
        return False

    def environment(self) -> dict[str, str]:
        """The variables of the sandbox."""
        return {name: secret.placeholder for name, secret in self._kept.items()}

    def masker_values(self) -> dict[str, str]:
        """Return the values that the journal must not show, those of revoked secrets included."""
        return {name: secret._value.reveal() for name, secret in self._kept.items()}

    def scrubber(self, host: str) -> Scrubber | None:
        """Return what takes all values out of the answers of a canonical host, whether or not it
        gets any: one may have been passed on to it. None without secrets."""
        gets_none = not self.names_for(host)
        if self._kept and gets_none not in self._scrubbers:
            needles = [secret.needle for secret in self._kept.values()]
            self._scrubbers[gets_none] = Scrubber(
                needles, self.environment(), keeps_length=gets_none
            )
        return self._scrubbers.get(gets_none)

    def fork(self) -> SecretKeeper:
        """For a sandbox that has the same placeholders in its memory and files."""
        forked = SecretKeeper(self._home, self._kept)
        forked._lost = set(self._lost)
        return forked

    def enlist(self, sandbox_id: str) -> None:
        """Lets `paddock secrets` know who has what, until `close`."""
        if self._kept:
            marks = {name: secret.mark for name, secret in self._kept.items()}
            revocations.enlist(self._home, sandbox_id, marks)
            self._sandbox_id = sandbox_id

    def close(self) -> None:
        """Forgets all values. Whatever still wants one fails."""
        self._is_closed = bool(self)
        self._kept.clear()
        self._scrubbers.clear()
        if self._sandbox_id is not None:
            revocations.strike(self._home, self._sandbox_id)
            self._sandbox_id = None

    async def watch(self, on_revoked: Callable[[str], None]) -> None:
        """Tells of each secret once, soon after it is revoked, so that what carried it is cut."""
        reported: set[str] = set()
        while set(self._kept) - reported:
            for name in [
                other for other in self._kept if other not in reported and self.is_revoked(other)
            ]:
                reported.add(name)
                on_revoked(name)
            await asyncio.sleep(POLL_S)

    def _check_open(self) -> None:
        if self._is_closed:
            raise SandboxError("the secrets of this sandbox are gone: it has ended")


def _kept(terms: SecretTerms, value: str, mark: Mark | None, token: str | None) -> Secret:
    checked(terms, value)
    is_usable = token is not None and _TOKEN.fullmatch(token)
    chance = token if is_usable and token is not None else secrets.token_hex(12)
    return Secret(terms, chance, mark, Needle(terms.name, value), _Value(value))
