"""Measures the world: stand-ins through the whole way (a client in a sandbox, TLS, gate, journal),
a scripted model's answer, and forks of many documents.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from paddock import Sandbox
from paddock.cli.bench_figures import (
    Figure,
    Limit,
    alternate,
    median,
    median_ms,
    number,
    spread_note,
    timed,
)
from paddock.cli.bench_rig import Rig, file_system
from paddock.cli.bench_world_rig import (
    ASK_MODEL,
    CREATE_INTENT,
    GET_CUSTOMER,
    Asking,
    Inside,
    in_process,
    kept_world,
    open_inside,
)
from paddock.world.store import Store

_CONNECTIONS = 16
_DOCUMENTS = 100_000
_FEW_DOCUMENTS = 10_000  # of the world of a sandbox, with --quick: seeding takes longer than forks
_TEXT = "Asked twice about the invoice of May; wants a call back before noon. " * 3


def world(rig: Rig) -> list[Figure]:
    """All by turns in one sandbox, with the host process on one core."""
    with open_inside() as inside:
        rates, writes, alone, model = alternate(
            rig.count(7, 2),
            _rate(rig, inside, GET_CUSTOMER),
            _rate(rig, inside, CREATE_INTENT),
            _p50(rig, inside, GET_CUSTOMER),
            _p50(rig, inside, ASK_MODEL),
        )
        payments_calls, model_calls = (
            in_process(asking, rig.scratch, rig.count(5000, 1000))
            for asking in (GET_CUSTOMER, ASK_MODEL)
        )
    where = _where(inside)
    return [
        _rate_figure("world-payments", "payments, GET customer", rates, where,
                     Limit(1500, is_floor=True)),
        _rate_figure("world-payments-write", "payments, POST payment intent", writes, where),
        _alone_figure("world-payments-p50", "payments, GET customer, one at a time", alone,
                      payments_calls, Limit(2)),
        _alone_figure("world-model", "scripted model, chat completion, one at a time", model,
                      model_calls, Limit(3)),
    ]  # fmt: skip


def world_fork(rig: Rig) -> list[Figure]:
    """Of a store alone, and of a sandbox with its world."""
    return [_store_fork(rig), _sandbox_fork(rig)]


def _rate(rig: Rig, inside: Inside, asking: Asking) -> Callable[[], float]:
    seconds = rig.count(3, 1)
    return lambda: float(inside.load(asking, connections=_CONNECTIONS, seconds=seconds)["rate"])


def _p50(rig: Rig, inside: Inside, asking: Asking) -> Callable[[], float]:
    seconds = rig.count(2, 1)
    return lambda: float(inside.load(asking, connections=1, seconds=seconds)["p50_s"])


def _rate_figure(
    name: str, title: str, rates: list[float], where: str, limit: Limit | None = None
) -> Figure:
    return Figure(
        name=name,
        title=f"{title}, {_CONNECTIONS} kept connections",
        value=median(rates),
        unit="/s",
        n=len(rates),
        limit=limit,
        note=f"{where}; slowest run {number(min(rates))}, fastest {number(max(rates))} /s",
    )


def _alone_figure(
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
        note=f"medians of runs, {spread_note(p50s)}; alone: called in process, n {len(calls):,}",
    )


def _where(inside: Inside) -> str:
    way = "client inside, TLS, gate, journal"
    if inside.core is None:
        return f"{way}; all on one core: there is no other"
    return f"{way}; the host process on one core, the client on another"


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
