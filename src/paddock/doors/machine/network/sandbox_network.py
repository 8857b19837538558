"""The network of a sandbox: its door, and what its programs are given to use it."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from paddock.doors.machine.actions import SandboxActions
from paddock.doors.machine.guest import LocalGuest
from paddock.doors.machine.network.absent_network import AbsentNetwork
from paddock.doors.machine.network.credential_supply import CredentialSupply
from paddock.doors.machine.network.sandbox_secrets import SandboxSecrets
from paddock.doors.machine.sandbox_gate import SandboxGate
from paddock.fence.driver import Capability
from paddock.fence.guest import agreed
from paddock.fence.offload import offload
from paddock.model.errors import HostCannot
from paddock.model.plural import many
from paddock.policy.network import Mode, NetworkTerms, plain_network

if TYPE_CHECKING:
    from paddock.doors.machine.network.inside_door import InsideDoor
    from paddock.doors.network.context import DoorContext
    from paddock.doors.network.door import NetworkDoor
    from paddock.doors.network.inside_api.state import InsideState
    from paddock.doors.network.tls.credentials import Credentials
    from paddock.policy.decide import Policy
    from paddock.world.world import World

_JAVA = "/run/paddock/ca.p12"
_NO_NETWORK = "none: only loopback"


class SandboxNetwork:
    """None of it exists before the first policy that has a network; loading it takes a while."""

    def __init__(
        self,
        credentials: CredentialSupply,
        guest: LocalGuest,
        sandbox_gate: SandboxGate,
        actions: SandboxActions,
        secrets: SandboxSecrets,
    ) -> None:
        self._credentials = credentials
        self._guest = guest
        self._machine = guest.machine
        self._sandbox_gate = sandbox_gate
        self._actions = actions
        self._secrets = secrets
        self._world: World | None = None
        self._door: NetworkDoor | None = None
        self._inside: InsideDoor | None = None
        self._absent = AbsentNetwork(guest.machine, actions)
        self._environment: dict[str, str] = {}

    def envs(self, own: dict[str, str]) -> dict[str, str]:
        """Return the variables of a program, with what it needs to trust the door."""
        if not self._environment and self._inside is None:
            return own
        from paddock.doors.network.tls.sandbox_trust import TrustPaths, with_python

        more = {} if self._inside is None else self._inside.environment
        return with_python({**self._environment, **more, **own}, TrustPaths())

    @property
    def latest_prompt(self) -> str | None:
        """Return the version of its prompt that the agent itself reported last."""
        return None if self._inside is None else self._inside.latest_prompt

    async def open(self, world: World | None, parent: SandboxSecrets | None = None) -> None:
        """Open what the policy wants opened, before anything untrusted runs. `parent` has the
        secrets of the sandbox that this one is a fork of."""
        self._world = world
        network = self._actions.policy.network
        if network is None or not wants_network(network):
            await self._watch_attempts()
            return
        await self._secrets.load(self._actions.policy, parent)
        await self._open(network)

    async def _watch_attempts(self) -> None:
        """Have attempts recorded. That gives evidence, not protection: where the fence keeps
        programs off every network, they get nowhere also when it cannot log them."""
        unenforced = self._machine.missing.get(Capability.NETWORK)
        if unenforced is not None:
            self._machine.enforcement["network"] = f"not enforced: {unenforced}"
            return
        problem = await self._absent.watch()
        unlogged = "" if problem is None else f"; attempts are not logged: {problem}"
        self._machine.enforcement["network"] = _NO_NETWORK + unlogged

    async def serve_inside(self, state: InsideState | None = None) -> None:
        """Let programs report what `paddock.inside` offers, from the next one that starts on.
        Once, for a sandbox whose network is open or that has none."""
        from paddock.doors.machine.network.inside_door import InsideDoor
        from paddock.doors.network.inside_api.state import InsideState
        from paddock.doors.network.tls.sandbox_trust import TrustPaths, inside_files

        files = [[path, [content]] for path, content in inside_files(TrustPaths()).items()]
        await self._place(files)
        state = state or InsideState()
        door = InsideDoor(self._machine, lambda: self._actions.gate, state, self._step_of)
        door.open(self._door)
        self._inside = door

    def as_options(self) -> dict[str, Any]:
        """Return the network section that is in force, as a file writes it."""
        network = self._actions.policy.network
        return {} if network is None else dict(plain_network(network))

    async def update(self, network: NetworkTerms) -> None:
        """Change the network section of a sandbox that runs. Its stand-ins stay where they are."""
        _ = self._guest.channel
        changed = self._actions.policy.with_network(network)
        self._secrets.check_values(changed)
        self._actions.change_policy(changed)
        await self._apply(self._actions.policy.network or network, cuts=True)

    async def change_terms(self, policy: Policy, *, cuts: bool = True) -> None:
        """Put another policy in force in a sandbox that runs. Its secrets were loaded before."""
        self._actions.change_policy(policy)
        await self._apply(policy.network or NetworkTerms(), cuts=cuts)

    async def _apply(self, network: NetworkTerms, *, cuts: bool) -> None:
        if self._door is not None:
            self._door.update(network, cuts=cuts)
        elif wants_network(network):
            await self._secrets.load(self._actions.policy, None)
            await self._open(network)
        if Capability.NETWORK not in self._machine.missing:
            self._machine.enforcement["network"] = _enforced(network)

    async def close(self) -> None:
        self._absent.close()
        if self._inside is not None:
            await self._inside.close()
        if self._door is not None:
            await self._door.close()
        else:
            self._secrets.close()

    async def _open(self, network: NetworkTerms) -> None:
        from paddock.doors.network.door import DoorOptions, NetworkDoor
        from paddock.doors.network.secrets.custody import Custody
        from paddock.doors.network.tls.server_trust import client_context

        self._machine.require(Capability.NETWORK)
        self._absent.give_back()
        around = DoorOptions(
            gate=lambda: self._actions.gate,
            policy=lambda: self._actions.policy,
            step_of=self._step_of,
            world=self._world,
        )
        if network.ca is not None:  # a file that is not there is said now, not at a request
            await offload(client_context, network.ca, ("http/1.1",))
        held = await self._credentials.take()
        has_roots = bool(network.passthrough)
        furnishing = asyncio.ensure_future(self._furnish(held, has_roots=has_roots))
        if self._inside is not None:
            self._inside.stand_back()
        try:  # the guest writes files while the kernel takes the rules
            sockets = await offload(self._machine.network.open_door)
            custody = Custody(self._secrets.keeper)
            self._door = NetworkDoor(sockets, network, custody, around, held.authority)
            self._lend_keys(self._door.context)
            if self._inside is not None:
                self._inside.move_to(self._door)
            self._door.open()
        finally:
            await furnishing
        self._machine.enforcement["network"] = _enforced(network)

    def _lend_keys(self, context: DoorContext) -> None:
        """Give the door the keys with which a run seals what its journal does not show, and knows
        it again."""
        from paddock.doors.network.layers.pacer import Pacer
        from paddock.gate.run_keys import run_key
        from paddock.journal.secrets.seal import Sealer
        from paddock.journal.secrets.value_hmac import ValueHmac

        home, root = self._sandbox_gate.home, self._sandbox_gate.root
        key = run_key(home, home.runs / self._guest.sandbox_id, root)
        context.keyed, context.sealer, context.sealed_for = ValueHmac(key), Sealer(key), root
        if self._sandbox_gate.is_run:
            context.pacer = Pacer(self._machine.init_pid)

    async def _furnish(self, held: Credentials, *, has_roots: bool) -> None:
        """Write files and set variables by which programs inside find the name server and trust the
        door."""
        from paddock.doors.network.names.table import NAME_SERVER_ADDRESS
        from paddock.doors.network.tls.sandbox_trust import (
            TrustPaths,
            environment,
            java_truststore,
            python_hook,
        )

        java = java_truststore(held.ca) if has_roots else held.java
        paths = TrustPaths(java=None if java is None else _JAVA)
        is_usual = self._guest.spec.template == "host"
        bundle = [held.ca, agreed.HOST_CERTIFICATES] if is_usual else [held.bundle]
        files: list[list[Any]] = [[paths.bundle, bundle], [paths.ca, [held.ca]]]
        files.append([f"{paths.python}/sitecustomize.py", [python_hook()]])
        files.append([agreed.RESOLVER, [f"nameserver {NAME_SERVER_ADDRESS}\n".encode()]])
        if java is not None:
            files.append([_JAVA, [java]])
        await self._place(files)
        self._environment = {**environment(paths), **self._secrets.keeper.environment()}

    async def _place(self, files: list[list[Any]]) -> None:
        answer = await self._guest.channel.ask("furnish", files=files)
        failed = {path: why for path, why in answer["failed"].items() if path != agreed.RESOLVER}
        if failed:  # a template may have a resolv.conf of its own, and nothing else of these
            path, why = next(iter(failed.items()))
            raise HostCannot(f"the network door cannot be furnished: {path}: {why}")

    def _step_of(self, sock: socket.socket | None) -> int | None:
        """Return the step that a connection is made for; without one, the step that runs, if it is
        the only one."""
        pid = None if sock is None else self._machine.network.owner_of(sock)
        return self._actions.steps.of_process(pid)


def wants_network(network: NetworkTerms | None) -> bool:
    """Return whether a sandbox gets a network door."""
    return network is not None and network.mode is not Mode.NONE


def _enforced(network: NetworkTerms) -> str:
    if network.mode is Mode.NONE:
        return _NO_NETWORK
    through = many(len(network.allow), "destination")
    text = f"filtered: every address leads to the door, which lets {through} through"
    hosts = {stand_in.host for stand_in in network.stand_ins}
    return f"{text}; stand-ins answer for {len(hosts)}" if hosts else text
