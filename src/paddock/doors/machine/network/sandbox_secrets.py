"""The secrets of one sandbox: loaded when its network is opened, masked in its journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paddock.doors.machine.sources import SecretSource
from paddock.model.errors import InvalidInput
from paddock.policy.decide import Policy
from paddock.state.home import Home

if TYPE_CHECKING:  # loaded with the first network
    from paddock.doors.network.secrets.keeper import SecretKeeper


class SandboxSecrets:
    """Holds the keeper of a sandbox's secrets, once there is one."""

    def __init__(self, source: SecretSource, home: Home, sandbox_id: str) -> None:
        self._source = source
        self._home = home
        self._sandbox_id = sandbox_id
        self._keeper: SecretKeeper | None = None
        self._without_value: frozenset[str] = frozenset()  # secrets that are placeholders only

    @property
    def keeper(self) -> SecretKeeper:
        """Return what `load` has loaded."""
        assert self._keeper is not None
        return self._keeper

    async def load(self, policy: Policy, parent: SandboxSecrets | None) -> None:
        """Load the secrets that the policy names. A fork has the placeholders of its parent in its
        files, so it has its parent's secrets too."""
        if parent is not None and parent._keeper is not None:
            self._keeper, self._without_value = parent._keeper.fork(), parent._without_value
        else:
            self._keeper, without_value = await self._source.load(self._home, policy)
            self._without_value |= without_value
        self._keeper.enlist(self._sandbox_id)

    def check_values(self, policy: Policy) -> None:
        """Raise InvalidInput for a policy that needs a value which was not loaded because only
        stand-ins were to get it. It cannot be loaded now: that may take seconds, or a person."""
        for name in sorted(self._without_value & policy.real_secrets.keys()):
            raise InvalidInput(
                f"the secret {name} has no value here: only stand-ins were to get it",
                hint="allow its real hosts when the sandbox is made",
            )

    def values(self) -> Mapping[str, str]:
        """Return what the journal must not show."""
        return {} if self._keeper is None else self._keeper.masker_values()

    def close(self) -> None:
        """Let go of the values."""
        if self._keeper is not None:
            self._keeper.close()
