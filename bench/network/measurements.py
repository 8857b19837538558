"""Measures the network door beside a direct connection and beside mitmdump, under one load."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from bench.figures import (
    Figure,
    Limit,
    alternate,
    failed,
    median,
    median_ms,
    number,
    spread_note,
)
from bench.network.memory import memory_figures
from bench.network.rig import Route, Routes, Words, open_routes
from bench.rig import Rig
from paddock import Sandbox
from paddock.model.errors import HostCannot

_CONNECTIONS = 16
_PROCESSES = 8
_BODY = 1024
_PATH = "/things/@"
_LONG, _LESS_LONG = 1 << 30, 1 << 27
_FUZZ_S = 60
_FUZZ = Path(__file__).parents[2] / "tests" / "fuzz" / "http1_fuzz.py"
_KINDS = {False: "plain HTTP", True: "TLS"}
_SHARED = "load, server and proxy share the cores"


def network(rig: Rig) -> list[Figure]:
    """Measure requests, new connections, time added and downloads, in turns, on one server."""
    figures: list[Figure] = []
    with open_routes(rig.scratch) as routes:
        for is_tls in (False, True):
            figures.append(_kept(rig, routes, is_tls=is_tls))
        figures.append(_fresh(rig, routes))
        for is_tls in (False, True):
            figures.append(_added(rig, routes, is_tls=is_tls))
        for is_tls in (False, True):
            figures.append(_download(rig, routes, is_tls=is_tls))
    return figures


def network_memory(rig: Rig) -> list[Figure]:
    return memory_figures(rig)


def network_start(rig: Rig) -> list[Figure]:
    """Start sandboxes with a door and without one, in turns; nothing is booted ahead."""
    terms = {"allow": ["bench.example:443"]}

    def create(**words: object) -> float:
        began = time.perf_counter()
        box = Sandbox.create(**words)  # type: ignore[arg-type]
        taken = time.perf_counter() - began
        box.kill()
        return taken

    opened, bare = alternate(rig.count(60, 15), lambda: create(network=terms), create, warm_up=2)
    added = [one - other for one, other in zip(opened, bare, strict=True)]
    return [
        Figure(
            name="network-start",
            title="what a door adds to the start of a sandbox",
            value=median_ms(opened) - median_ms(bare),
            unit="ms",
            n=len(opened),
            limit=Limit(5),
            note=f"with {spread_note(opened)}; without {spread_note(bare)}; "
            f"median of the differences {number(median_ms(added))} ms",
        )
    ]


def fuzz(rig: Rig) -> list[Figure]:
    """The parser of untrusted bytes under bytes that want to be misread. Not with --quick."""
    if rig.is_quick:
        return []
    if not _FUZZ.exists():
        raise HostCannot(f"there is no {_FUZZ}", hint="run the bench from the sources")
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, str(_FUZZ), str(_FUZZ_S)],
        capture_output=True,
        text=True,
        timeout=_FUZZ_S + 120,
    )
    taken = time.monotonic() - began
    if ended.returncode != 0:
        return [failed("fuzz", HostCannot(ended.stderr.strip()[-300:]))]
    limit = Limit(_FUZZ_S, is_floor=True)
    note = ended.stdout.strip()
    return [Figure("fuzz", "HTTP/1 under fuzz, nothing broken", taken, "s", 1, limit=limit,
                   note=note)]  # fmt: skip


def _kept(rig: Rig, routes: Routes, *, is_tls: bool) -> Figure:
    words: Words = {"connections": _CONNECTIONS, "seconds": rig.count(4, 1)}
    rates = _rates(rig, routes, "kept", is_tls=is_tls, words=words)
    return _beside_mitmdump(
        routes,
        rates,
        name=f"network-{'tls' if is_tls else 'plain'}",
        title=f"requests on {_CONNECTIONS} kept connections, {_KINDS[is_tls]}",
        limit=Limit(10, is_ratio=True, is_floor=True),
    )


def _fresh(rig: Rig, routes: Routes) -> Figure:
    words: Words = {"processes": _PROCESSES, "seconds": rig.count(4, 1)}
    rates = _rates(rig, routes, "fresh", is_tls=True, words=words)
    return _beside_mitmdump(
        routes,
        rates,
        name="network-new-tls",
        title="new TLS connections, one request each",
        limit=Limit(5, is_ratio=True, is_floor=True),
    )


def _rates(
    rig: Rig, routes: Routes, work: str, *, is_tls: bool, words: Words
) -> dict[str, list[float]]:
    """Return the requests a second of every way; `straight` is the door without its proxy."""
    ways = {"direct": routes.direct, "mitmdump": routes.mitmdump, "door": routes.door,
            "straight": routes.straight}  # fmt: skip
    known = {name: way for name, way in ways.items() if way is not None}

    def rate(way: Route) -> float:
        told = way.load(work, is_tls=is_tls, path=_PATH, size=_BODY, **words)
        return float(told["rate"])

    runs = [lambda way=way: rate(way) for way in known.values()]
    taken = alternate(rig.count(3, 1), *runs, warm_up=0 if rig.is_quick else 1)
    return dict(zip(known, taken, strict=True))


def _beside_mitmdump(
    routes: Routes, rates: dict[str, list[float]], *, name: str, title: str, limit: Limit
) -> Figure:
    peer = rates.get("mitmdump")
    note = (
        f"{_BODY} bytes each; by the proxy of each; direct {number(median(rates['direct']))}, "
        f"by the door without its proxy {number(median(rates['straight']))} /s; {_SHARED}"
    )
    return Figure(
        name=name,
        title=title,
        value=median(rates["door"]),
        unit="/s",
        n=len(rates["door"]),
        peer=None if peer is None else "mitmdump",
        peer_value=None if peer is None else median(peer),
        limit=limit,
        note=note if peer is not None else f"{routes.absent}; {note}",
    )


def _added(rig: Rig, routes: Routes, *, is_tls: bool) -> Figure:
    """Measure one request at a time on one connection: what the way itself takes."""
    words: Words = {"connections": 1, "seconds": rig.count(2, 1), "path": _PATH, "size": _BODY}

    def p50_s(way: Route) -> float:
        return float(way.load("kept", is_tls=is_tls, **words)["p50_s"])

    ours, theirs = alternate(
        rig.count(5, 2), lambda: p50_s(routes.straight), lambda: p50_s(routes.direct), warm_up=0
    )
    return Figure(
        name=f"network-added-{'tls' if is_tls else 'plain'}",
        title=f"p50 that the door adds to a request, {_KINDS[is_tls]}",
        value=median_ms(ours) - median_ms(theirs),
        unit="ms",
        n=len(ours),
        limit=Limit(0.5),
        note=f"one kept connection; by the door {number(median_ms(ours))}, "
        f"direct {number(median_ms(theirs))} ms",
    )


def _download(rig: Rig, routes: Routes, *, is_tls: bool) -> Figure:
    size = rig.count(_LONG, _LESS_LONG)

    def rate(way: Route) -> float:
        told = way.load("download", is_tls=is_tls, path=f"/bytes/{size}", size=size)
        return size / 1e6 / float(told["seconds"])

    ours, theirs = alternate(
        rig.count(3, 1), lambda: rate(routes.straight), lambda: rate(routes.direct), warm_up=0
    )
    return Figure(
        name=f"network-download-{'tls' if is_tls else 'plain'}",
        title=f"download of {size >> 20:,} MiB, {_KINDS[is_tls]}",
        value=median(ours),
        unit="MB/s",
        n=len(ours),
        peer="direct",
        peer_value=median(theirs),
        limit=Limit(0.5, is_ratio=True, is_floor=True),
        note=_SHARED,
    )
