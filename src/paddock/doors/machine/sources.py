"""The sources of a new sandbox's secrets and world.

A sandbox of the SDK and a plain run load the values of their secrets from the host and open a
seeded world. A replay needs neither: nothing goes out and no stand-in answers. A fork has the world
of its step, and secrets whose placeholders are those of the recorded run. Which of these a sandbox
has is decided by whoever creates it; the sandbox only knows the two interfaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from paddock.fence.offload import offload
from paddock.policy.decide import Policy
from paddock.state.home import Home

if TYPE_CHECKING:  # loaded when a sandbox has a network or a world
    from paddock.doors.network.secrets.keeper import SecretKeeper
    from paddock.policy.secrets import SecretTerms
    from paddock.world.world import World


class LoadedSecrets(NamedTuple):
    """The secrets of a sandbox, and the names of those that have no value here."""

    keeper: SecretKeeper
    without_value: frozenset[str]


class SecretSource(Protocol):
    """Loads the secrets that a policy names."""

    async def load(self, home: Home, policy: Policy) -> LoadedSecrets:
        """Raises InvalidInput or HostCannot for a value that cannot be had."""
        ...


class WorldSource(Protocol):
    """Opens the world of a sandbox."""

    async def open(self, home: Home, sandbox_id: str, policy: Policy) -> World | None:
        """Return None where there are no stand-ins. Raises InvalidInput for a wrong file."""
        ...


class HostSecrets:
    """Values from the host, as the policy names their sources.

    A fork passes the policy of its live part, whose secrets count, and the random parts of the
    placeholders in the recorded run, which the agent may have written down.
    """

    def __init__(
        self, live_policy: Policy | None = None, tokens: Mapping[str, str] | None = None
    ) -> None:
        self._live_policy = live_policy
        self._tokens = tokens or {}

    async def load(self, home: Home, policy: Policy) -> LoadedSecrets:
        from paddock.doors.network.secrets.keeper import SecretKeeper

        live = self._live_policy or policy
        with_value, without = _split_by_value(live, {**policy.secrets, **live.secrets})
        if not with_value and not without:
            return LoadedSecrets(SecretKeeper(home), frozenset())
        load = partial(
            SecretKeeper.load, tokens=self._tokens, without=without, base=live.terms.base
        )
        keeper = await offload(load, home, with_value)
        return LoadedSecrets(keeper, frozenset(without.keys() & live.secrets.keys()))


class PlaceholderSecrets:
    """Placeholders without values, for a sandbox from which nothing goes out."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._tokens = tokens

    async def load(self, home: Home, policy: Policy) -> LoadedSecrets:
        from paddock.doors.network.secrets.keeper import SecretKeeper

        if not policy.secrets:
            return LoadedSecrets(SecretKeeper(home), frozenset())
        keeper = SecretKeeper.without_values(home, policy.secrets, self._tokens)
        return LoadedSecrets(keeper, frozenset(policy.secrets))


class SeededWorld:
    """A new world with the stand-ins that the policy wants."""

    async def open(self, home: Home, sandbox_id: str, policy: Policy) -> World | None:
        if policy.world is None or not policy.world.stand_ins:
            return None
        from paddock.world.world import World

        project = Path(policy.terms.base or Path.cwd())
        directory = home.worlds / sandbox_id
        return await offload(World.open, directory, sandbox_id, policy.world, project)


class NoWorld:
    """No stand-ins, whatever the policy says: every answer comes from a recorded run."""

    async def open(self, home: Home, sandbox_id: str, policy: Policy) -> World | None:
        return None


class BoxSources(NamedTuple):
    """The sources that a sandbox is created with besides its spec and its policy."""

    secrets: SecretSource = HostSecrets()
    world: WorldSource = SeededWorld()


def _split_by_value(
    live: Policy, every: Mapping[str, SecretTerms]
) -> tuple[dict[str, SecretTerms], dict[str, SecretTerms]]:
    """Return the secrets whose values are loaded, and those that are placeholders only. What only
    stand-ins get needs no value; one that is at hand is kept off the journal all the same."""
    from paddock.doors.network.secrets.sources import is_at_hand

    real = live.real_secrets
    loaded = {
        name: terms for name, terms in live.secrets.items() if name in real or is_at_hand(terms)
    }
    return loaded, {name: terms for name, terms in every.items() if name not in loaded}
