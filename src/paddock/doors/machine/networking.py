"""A sandbox's network: its door, its secrets, and what its programs are given to use both."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from paddock.doors.machine.absent_network import AbsentNetwork
from paddock.doors.machine.sources import SecretSource
from paddock.fence.guest import agreed
from paddock.fence.offload import offload
from paddock.model.errors import HostCannot, InvalidInput
from paddock.model.plural import many
from paddock.policy.network import Mode, NetworkTerms, plain_network

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.doors.machine.engine import Engine
    from paddock.doors.machine.inside_door import InsideDoor
    from paddock.doors.network.credentials import Credentials
    from paddock.doors.network.door import NetworkDoor
    from paddock.doors.network.inside_state import InsideState
    from paddock.doors.network.secrets import SecretKeeper
    from paddock.doors.network.services import Services
    from paddock.policy.decide import Policy

_JAVA = "/run/paddock/ca.p12"
_NO_NETWORK = "none: only loopback"
_DOOR = "paddock.doors.network"
_SPARE_S = 0.1  # the new sandbox goes first


class BoxNetwork:
    """None of it exists before the first terms that have a network; loading it takes a while."""

    def __init__(self, box: Box, secrets: SecretSource) -> None:
        self._box = box
        self._secrets = secrets
        self._door: NetworkDoor | None = None
        self._keeper: SecretKeeper | None = None
        self._inside: InsideDoor | None = None
        self._absent = AbsentNetwork(box)
        self._without_value: frozenset[str] = frozenset()  # secrets that are placeholders only
        self.environment: dict[str, str] = {}

    @property
    def is_open(self) -> bool:
        return self._door is not None

    def envs(self, given: dict[str, str]) -> dict[str, str]:
        """What a program gets, with what it needs to trust the door."""
        if not self.environment and self._inside is None:
            return given
        from paddock.doors.network.trust import TrustPaths, with_python

        more = {} if self._inside is None else self._inside.environment
        return with_python({**self.environment, **more, **given}, TrustPaths())

    @property
    def latest_prompt(self) -> str | None:
        """The version of its prompt that the agent reported last: its own word."""
        return None if self._inside is None else self._inside.latest_prompt

    @property
    def secret_values(self) -> dict[str, str]:
        """What the journal must not show."""
        return self._keeper.masker_values() if self._keeper is not None else {}

    async def open(self, parent: BoxNetwork | None = None) -> None:
        """Opens what the policy wants opened, before anything untrusted runs. A fork has the
        placeholders of its parent in its files, so it has its parent's secrets too."""
        network = self._box.passage.policy.network
        if network is None or not wants_network(network):
            problem = await self._absent.watch()
            unlogged = "" if problem is None else f"; attempts are not logged: {problem}"
            self._box.machine.enforcement["network"] = _NO_NETWORK + unlogged
            return
        await self._load_secrets(parent)
        await self._open(network)

    async def serve_inside(self, state: InsideState | None = None) -> None:
        """Lets programs report what `paddock.inside` offers, from the next one that starts on.
        Once, for a sandbox whose network is open or that has none."""
        from paddock.doors.machine.inside_door import InsideDoor
        from paddock.doors.network.inside_state import InsideState
        from paddock.doors.network.trust import TrustPaths, inside_files

        files = [[path, [content]] for path, content in inside_files(TrustPaths()).items()]
        await self._place(files)
        door = InsideDoor(self._box, state or InsideState(), self._step_of)
        door.open(self._door)
        self._inside = door

    def words(self) -> dict[str, Any]:
        """The terms that hold, as a file writes them."""
        network = self._box.passage.policy.network
        return {} if network is None else dict(plain_network(network))

    async def update(self, network: NetworkTerms) -> None:
        """Other terms for a sandbox that runs. Its stand-ins stay where they are."""
        passage = self._box.passage
        _ = self._box.channel
        changed = passage.policy.with_network(network)
        self._check_values(changed)
        passage.change_policy(changed)
        reached = passage.policy.network or network
        if self._door is not None:
            self._door.update(reached)
        elif wants_network(reached):
            await self._load_secrets(None)
            await self._open(reached)
        self._box.machine.enforcement["network"] = _enforced(reached)

    async def change_terms(self, policy: Policy, *, cuts: bool = True) -> None:
        """All terms of another policy, for a sandbox that runs. Its secrets were loaded before."""
        self._box.passage.change_policy(policy)
        network = policy.network or NetworkTerms()
        if self._door is not None:
            self._door.update(network, cuts=cuts)
        elif wants_network(network):
            await self._load_secrets(None)
            await self._open(network)
        self._box.machine.enforcement["network"] = _enforced(network)

    async def close(self) -> None:
        self._absent.close()
        if self._inside is not None:
            await self._inside.close()
        if self._door is not None:
            await self._door.close()
        elif self._keeper is not None:
            self._keeper.close()

    def _check_values(self, policy: Policy) -> None:
        """What only stand-ins were to get was not loaded, and cannot be now: it may take seconds,
        or a person. Raises InvalidInput."""
        for name in sorted(self._without_value & policy.real_secrets.keys()):
            raise InvalidInput(
                f"the secret {name} has no value here: only stand-ins were to get it",
                hint="allow its real hosts when the sandbox is made",
            )

    async def _load_secrets(self, parent: BoxNetwork | None) -> None:
        if parent is not None and parent._keeper is not None:
            self._keeper, self._without_value = parent._keeper.fork(), parent._without_value
        else:
            home, policy = self._box.engine.home, self._box.passage.policy
            self._keeper, without_value = await self._secrets.load(home, policy)
            self._without_value |= without_value
        self._keeper.enlist(self._box.sandbox_id)

    async def _open(self, network: NetworkTerms) -> None:
        from paddock.doors.network.custody import Custody
        from paddock.doors.network.door import NetworkDoor, Surroundings
        from paddock.doors.network.upstream_tls import client_context
        from paddock.fence.container.network import open_door

        box = self._box
        assert self._keeper is not None
        self._absent.give_back()
        around = Surroundings(
            gate=lambda: box.passage.gate,
            policy=lambda: box.passage.policy,
            step_of=self._step_of,
            world=box.world,
        )
        if network.ca is not None:  # a file that is not there is said now, not at a request
            await offload(client_context, network.ca, ("http/1.1",))
        held = await _credentials(box.engine)
        has_roots = bool(network.passthrough)
        furnishing = asyncio.ensure_future(self._furnish(held, has_roots=has_roots))
        if self._inside is not None:
            self._inside.stand_back()
        try:  # the guest writes files while the kernel takes the rules
            sockets = await offload(open_door, box.machine.network_sockets)
            custody = Custody(self._keeper)
            self._door = NetworkDoor(sockets, network, custody, around, held.authority)
            self._lend_keys(self._door.services)
            if self._inside is not None:
                self._inside.move_to(self._door)
            self._door.open()
        finally:
            await furnishing
        box.machine.enforcement["network"] = _enforced(network)

    def _lend_keys(self, services: Services) -> None:
        """With which a run seals what its journal does not show, and knows it again."""
        from paddock.doors.network.pacing import Pacer
        from paddock.gate.run_keys import run_key
        from paddock.journal.secrets.seal import Sealer
        from paddock.journal.secrets.value_hmac import ValueHmac

        home, root = self._box.engine.home, self._box.passage.root
        key = run_key(home, home.runs / self._box.sandbox_id, root)
        services.keyed, services.sealer, services.sealed_for = ValueHmac(key), Sealer(key), root
        if self._box.passage.is_run:
            services.pacer = Pacer(self._box.machine.init_pid)

    async def _furnish(self, held: Credentials, *, has_roots: bool) -> None:
        """Files and variables, so that programs inside find the name server and trust the door."""
        from paddock.doors.network.names import NAME_SERVER_ADDRESS
        from paddock.doors.network.trust import (
            TrustPaths,
            environment,
            java_truststore,
            python_hook,
        )

        java = java_truststore(held.ca) if has_roots else held.java
        paths = TrustPaths(java=None if java is None else _JAVA)
        is_usual = self._box.spec.template == "host"
        bundle = [held.ca, agreed.HOST_CERTIFICATES] if is_usual else [held.bundle]
        files: list[list[Any]] = [[paths.bundle, bundle], [paths.ca, [held.ca]]]
        files.append([f"{paths.python}/sitecustomize.py", [python_hook()]])
        files.append([agreed.RESOLVER, [f"nameserver {NAME_SERVER_ADDRESS}\n".encode()]])
        if java is not None:
            files.append([_JAVA, [java]])
        await self._place(files)
        assert self._keeper is not None
        self.environment = {**environment(paths), **self._keeper.environment()}

    async def _place(self, files: list[list[Any]]) -> None:
        answer = await self._box.channel.ask("furnish", files=files)
        failed = {path: why for path, why in answer["failed"].items() if path != agreed.RESOLVER}
        if failed:  # a template may have a resolv.conf of its own, and nothing else of these
            path, why = next(iter(failed.items()))
            raise HostCannot(f"the network door cannot be furnished: {path}: {why}")

    def _step_of(self, sock: socket.socket | None) -> int | None:
        """The step that a connection is made for. Without one, that of what runs, if it is one."""
        from paddock.fence.container.owner import owner_of

        machine, pid = self._box.machine, None
        if sock is not None:
            pid = owner_of(machine.network_sockets, sock, machine.init_pid)
        return self._box.passage.step_of_process(pid)


def prepare_door(engine: Engine) -> None:
    """Begins to make what the next door needs: a machine boots meanwhile. For the first door of a
    process that is also the code."""
    if engine.credentials is None:
        engine.credentials = asyncio.ensure_future(offload(_made))


async def _credentials(engine: Engine) -> Credentials:
    """Each is given out once."""
    prepare_door(engine)
    held, engine.credentials = engine.credentials, None
    assert held is not None
    engine.spare_timer = engine.loop.call_later(_SPARE_S, prepare_door, engine)
    made: Credentials = await held
    return made


def _made() -> Credentials:
    from importlib import import_module

    for name in ("dns.message", f"{_DOOR}.door"):
        import_module(name)
    from paddock.doors.network.credentials import Credentials

    return Credentials.make()


def wants_network(network: NetworkTerms | None) -> bool:
    return network is not None and network.mode is not Mode.NONE


def _enforced(network: NetworkTerms) -> str:
    if network.mode is Mode.NONE:
        return _NO_NETWORK
    count, stood_in = len(network.allow), len({one.host for one in network.stand_ins})
    through = many(count, "destination")
    said = f"filtered: every address leads to the door, which lets {through} through"
    return f"{said}; stand-ins answer for {stood_in}" if stood_in else said
