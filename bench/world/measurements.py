"""Measures the world: stand-ins through the whole way (a client in a sandbox, TLS, gate, journal),
a scripted model's answer, and forks of many documents.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from bench.figures import (
    Figure,
    Limit,
    alternate,
    median,
    median_ms,
    number,
    spread_note,
    timed,
)
from bench.rig import Rig, file_system
from bench.world.rig import (
    ASK_MODEL,
    CREATE_INTENT,
    GET_CUSTOMER,
    Asking,
    Inside,
    in_process,
    kept_world,
    open_inside,
)
from paddock import Sandbox
from paddock.world.store import Store

_CONNECTIONS = 16
_DOCUMENTS = 100_000
_FEW_DOCUMENTS = 10_000  # of the world of a sandbox, with --quick: seeding takes longer than forks
_TEXT = "Asked twice about the invoice of May; wants a call back before noon. " * 3


def world(rig: Rig) -> list[Figure]:
    """All by turns in one sandbox, with the host process on one core."""
    with open_inside() as inside:
        reads, writes = _Rates(rig, inside, GET_CUSTOMER), _Rates(rig, inside, CREATE_INTENT)
        read_rates, write_rates, read_p50s, model_p50s = alternate(
            rig.count(7, 2),
            reads.run,
            writes.run,
            lambda: _p50_s(rig, inside, GET_CUSTOMER),
            lambda: _p50_s(rig, inside, ASK_MODEL),
        )
        payments, model = (
            in_process(asking, rig.scratch, rig.count(5000, 1000))
            for asking in (GET_CUSTOMER, ASK_MODEL)
        )
    title = "payments, one GET of a customer at a time"
    return [
        reads.figure("world-payments", "payments, GET of a customer", read_rates,
                     Limit(1500, is_floor=True)),
        _p50_figure("world-payments-p50", title, read_p50s, payments, Limit(2)),
        writes.figure("world-payments-write", "payments, POST of a payment intent", write_rates),
        _p50_figure("world-model", "scripted model, one chat completion at a time", model_p50s,
                    model, Limit(3)),
    ]  # fmt: skip


def world_fork(rig: Rig) -> list[Figure]:
    """Measure forks of a store alone, and of a sandbox with its world."""
    return [_store_fork(rig), _sandbox_fork(rig)]


class _Rates:
    """Measures requests a second on kept connections, and what each took of the host."""

    def __init__(self, rig: Rig, inside: Inside, asking: Asking) -> None:
        self._inside = inside
        self._asking = asking
        self._seconds = rig.count(3, 1)
        self._cpu_s: list[float] = []

    def run(self) -> float:
        told = self._inside.load(self._asking, connections=_CONNECTIONS, seconds=self._seconds)
        self._cpu_s.append(told["cpu_s"])
        return float(told["rate"])

    def figure(
        self, name: str, title: str, rates: list[float], limit: Limit | None = None
    ) -> Figure:
        return Figure(
            name=name,
            title=f"{title}, {_CONNECTIONS} kept connections",
            value=median(rates),
            unit="/s",
            n=len(rates),
            limit=limit,
            note=f"client inside, TLS, gate, journal; {_where(self._inside)}; runs from "
            f"{number(min(rates))} to {number(max(rates))} /s; "
            f"{number(1000 * median_ms(self._cpu_s))} us of the host's CPU a request",
        )


def _where(inside: Inside) -> str:
    if inside.core is None:
        return "all on one core, there is no other"
    return "the host process on one core, the client on another"


def _p50_s(rig: Rig, inside: Inside, asking: Asking) -> float:
    return float(inside.load(asking, connections=1, seconds=rig.count(2, 1))["p50_s"])


def _p50_figure(
    name: str, title: str, p50s: list[float], calls: list[float], limit: Limit
) -> Figure:
    return Figure(
        name=name,
        title=title,
        value=median_ms(p50s),
        unit="ms",
        n=len(p50s),
        peer="stand-in alone",
        peer_value=median_ms(calls),
        limit=limit,
        note=f"client inside, TLS, gate, journal; p50 of {len(p50s)} runs, {spread_note(p50s)}; "
        f"alone: called in process, {len(calls):,} times",
    )


def _store_fork(rig: Rig) -> Figure:
    path, copy = rig.scratch / "documents.sqlite", rig.scratch / "copy.sqlite"
    with Store.open(path) as store:
        _fill(store)
        forks, copies = alternate(
            rig.count(15, 9), lambda: _timed_fork(store, copy), lambda: _timed_copy(path, copy)
        )
    size = path.stat().st_size
    path.unlink()
    return Figure(
        name="world-fork-store",
        title=f"fork of a store with {_DOCUMENTS:,} documents",
        value=median_ms(forks),
        unit="ms",
        n=len(forks),
        peer="cp of its file",
        peer_value=median_ms(copies),
        limit=Limit(50),
        note=f"{spread_note(forks)}; {size >> 20} MiB on {file_system(rig.scratch)}; "
        f"cp {spread_note(copies)}",
    )


def _fill(store: Store) -> None:
    """Documents of about 300 bytes."""
    with store.transaction():
        for count in range(_DOCUMENTS):
            id = f"cus_{count:012}"
            document = {"id": id, "object": "customer", "name": f"Ada {count}", "note": _TEXT}
            store.put("customers", id, document)
    store.seal()


def _timed_fork(store: Store, path: Path) -> float:
    began = time.perf_counter()
    fork = store.fork(path)
    taken = time.perf_counter() - began
    fork.close()
    path.unlink()
    return taken


def _timed_copy(path: Path, copy: Path) -> float:
    taken = timed(lambda: subprocess.run(["/bin/cp", str(path), str(copy)], check=True))()
    copy.unlink()
    return taken


def _sandbox_fork(rig: Rig) -> Figure:
    documents = rig.count(_DOCUMENTS, _FEW_DOCUMENTS)
    seed = rig.scratch / "seed.json"
    seed.write_text(json.dumps({"customers": _customers(documents)}))
    words = {"api.stripe.com": {"service": "payments", "seed": str(seed)}}
    with kept_world(Sandbox.create(world=words)) as box, Sandbox.create() as bare:
        forks, others = alternate(
            rig.count(9, 5), lambda: _timed_box_fork(box), lambda: _timed_box_fork(bare)
        )
    return Figure(
        name="world-fork",
        title=f"fork of a sandbox whose world has {documents:,} documents",
        value=median_ms(forks),
        unit="ms",
        n=len(forks),
        peer="without a world",
        peer_value=median_ms(others),
        note=f"{spread_note(forks)}; on {file_system(rig.scratch)}",
    )


def _customers(count: int) -> list[dict[str, str]]:
    return [
        {"id": f"cus_{number:012}", "email": f"ada.{number}@example.com", "name": f"Ada {number}"}
        for number in range(count)
    ]


def _timed_box_fork(box: Sandbox) -> float:
    began = time.perf_counter()
    fork = box.fork()
    taken = time.perf_counter() - began
    with kept_world(fork):
        return taken
