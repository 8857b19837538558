"""Sandboxes in a world, the production behind it, and who answers questions. No test lives here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from paddock import Sandbox
from paddock.gate.approvals import Approvals
from paddock.gate.run_gate import gate_store
from paddock.state.home import Home
from security.attack import eventually
from security.network.inside import say
from security.network.origins import Origin, careless

HEAD = "version: 1\nagent: attacked\nstage: broad\napprovals: {timeout: 30s, by: [store]}\n"
INSIDE = "rules:\n  - {id: inside, match: {kind: [exec, file, code]}, decide: allow}\n"
MakeWorld = Callable[..., Sandbox]
Edit = Callable[[dict[str, Any]], dict[str, Any]]


class Production:
    """The real servers, by name. Whoever reaches one of them has got out of the world."""

    def __init__(self, *names: str) -> None:
        self._stack = ExitStack()
        self.origins = {name: self._stack.enter_context(careless()) for name in names}

    def __getitem__(self, name: str) -> Origin:
        return self.origins[name]

    @property
    def hosts(self) -> dict[str, str]:
        return {name: one.place for name, one in self.origins.items()}

    @property
    def heard(self) -> bytes:
        return b"".join(bytes(one.heard) for one in self.origins.values())

    def clear(self) -> None:
        for one in self.origins.values():
            one.clear()

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def production() -> Iterator[Production]:
    made = Production(
        "pay.example", "mail.example", "real.example", "desk.example", "other.example"
    )
    yield made
    made.close()


@pytest.fixture
def make_world(production: Production, tmp_path: Path) -> Iterator[MakeWorld]:
    """Creates sandboxes whose names lead to production, wherever no stand-in is before it."""
    made: list[Sandbox] = []

    def make(
        world: Mapping[str, Any],
        allow: tuple[str, ...] = (),
        rules: str = "",
        passthrough: tuple[str, ...] = (),
        hosts: Mapping[str, str] | None = None,
        **words: Any,
    ) -> Sandbox:
        file = tmp_path / "paddock.yaml"
        file.write_text(HEAD + (rules or INSIDE))
        network = {
            "allow": list(allow),
            "hosts": hosts or production.hosts,
            "tls": {"passthrough": list(passthrough)},
        }
        made.append(Sandbox.create(policy=file, world=world, network=network, **words))
        return made[-1]

    production.clear()
    yield make
    for box in made:
        box.kill()


def edited(box: Sandbox, edit: Edit, **words: Any) -> bytes:
    """The answer to a request that somebody is asked about and changes."""
    approvals = Approvals(gate_store(Home.find()))
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(say, box, **words)
        one = eventually(lambda: approvals.all(run=box.sandbox_id), 20, "somebody is asked")[0]
        approvals.edit(one.approval_id, "ann", edit(dict(one.content["arguments"])))
        return said.result()
