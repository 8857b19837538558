"""A sandbox's network: its door, its secrets, and what its programs are given to use both."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from paddock.fence.guest import agreed
from paddock.model.errors import PaddockError
from paddock.policy.network import Mode, NetworkTerms

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.doors.network.door import NetworkDoor
    from paddock.doors.network.secrets import SecretKeeper

_BUNDLE = agreed.CERTIFICATES
_CA = "/run/paddock/ca.pem"
_JAVA = "/run/paddock/ca.p12"
_NAME_SERVER = "nameserver 198.18.0.2\n"
_NO_NETWORK = "none: only loopback"
_DOOR = "paddock.doors.network"


class BoxNetwork:
    """None of it exists before the first terms that have a network; loading it takes a while."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._door: NetworkDoor | None = None
        self._keeper: SecretKeeper | None = None
        self.environment: dict[str, str] = {}

    @property
    def is_open(self) -> bool:
        return self._door is not None

    @property
    def secret_values(self) -> dict[str, str]:
        """What the journal must not show."""
        return self._keeper.masker_values() if self._keeper is not None else {}

    async def open(self, parent: BoxNetwork | None = None) -> None:
        """Opens what the policy wants opened, before anything untrusted runs. A fork has the
        placeholders of its parent in its files, so it has its parent's secrets too."""
        network = self._box.passage.policy.network
        if network is None or not wants_network(network):
            self._box.machine.enforcement["network"] = _NO_NETWORK
            return
        await self._load_secrets(parent)
        await self._open(network)

    async def update(self, network: NetworkTerms) -> None:
        """Other terms for a sandbox that runs."""
        passage = self._box.passage
        _ = self._box.channel
        passage.change_policy(passage.policy.with_network(network))
        if self._door is not None:
            self._door.update(network)
        elif wants_network(network):
            await self._load_secrets(None)
            await self._open(network)
        self._box.machine.enforcement["network"] = _enforced(network)

    async def close(self) -> None:
        if self._door is not None:
            await self._door.close()
        elif self._keeper is not None:
            self._keeper.close()

    async def _load_secrets(self, parent: BoxNetwork | None) -> None:
        from paddock.doors.network.secrets import SecretKeeper
        from paddock.fence.offload import offload

        terms = self._box.passage.policy.secrets
        if parent is not None and parent._keeper is not None:
            self._keeper = parent._keeper.fork()
        elif terms:
            self._keeper = await offload(SecretKeeper.load, self._box.engine.home, terms)
        else:
            self._keeper = SecretKeeper(self._box.engine.home)
        self._keeper.enlist(self._box.sandbox_id)

    async def _open(self, network: NetworkTerms) -> None:
        from paddock.doors.network.custody import Custody
        from paddock.doors.network.door import NetworkDoor, Surroundings
        from paddock.fence.container.network import open_door

        box = self._box
        assert self._keeper is not None
        sockets = open_door(box.machine.network_sockets)
        around = Surroundings(
            gate=lambda: box.passage.gate,
            policy=lambda: box.passage.policy,
            step_of=self._step_of,
        )
        self._door = NetworkDoor(sockets, network, Custody(self._keeper), around)
        await self._furnish(self._door)
        self._door.open()
        box.machine.enforcement["network"] = _enforced(network)

    async def _furnish(self, door: NetworkDoor) -> None:
        """Files and variables, so that programs inside find the name server and trust the door."""
        from paddock.doors.network.trust import (
            TrustPaths,
            bundle,
            environment,
            java_truststore,
        )

        files, ca = self._box.files, door.authority.ca_pem
        java = java_truststore(ca, with_roots=bool(door.network.passthrough))
        # It stands there as a link to the host's own roots, which is read-only.
        await files.write(f"{_BUNDLE}.new", bundle(ca))
        await files.rename(f"{_BUNDLE}.new", _BUNDLE)
        await files.write(_CA, ca)
        if java is not None:
            await files.write(_JAVA, java)
        with contextlib.suppress(PaddockError):  # a template may have a resolv.conf of its own
            await files.write(agreed.RESOLVER, _NAME_SERVER)
        variables = environment(TrustPaths(_BUNDLE, _CA, None if java is None else _JAVA))
        assert self._keeper is not None
        self.environment = {**variables, **self._keeper.environment()}

    def _step_of(self, sock: socket.socket | None) -> int | None:
        """The step that a connection is made for. Without one, that of what runs, if it is one."""
        from paddock.fence.container.owner import owner_of

        machine, pid = self._box.machine, None
        if sock is not None:
            pid = owner_of(machine.network_sockets, sock, machine.init_pid)
        return self._box.passage.step_of_process(pid)


def load_door() -> None:
    """Loads what the first door of a process needs; it takes a while, a machine boots meanwhile."""
    from importlib import import_module

    for name in ("cryptography.x509", "dns.message", f"{_DOOR}.door", f"{_DOOR}.trust"):
        import_module(name)


def wants_network(network: NetworkTerms | None) -> bool:
    return network is not None and network.mode is not Mode.NONE


def _enforced(network: NetworkTerms) -> str:
    if network.mode is Mode.NONE:
        return _NO_NETWORK
    count = len(network.allow)
    return f"filtered: every address leads to the door, which lets {count} destinations through"
