"""Variables that seed the randomness of programs inside, and give them the clock of another time.

They help a program to do again what it did. They keep nobody from anything.
"""

from __future__ import annotations

import hashlib
import time

SEED = "PADDOCK_SEED"  # read by `inside/sitecustomize.py`
_LIBRARIES = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",  # Debian, Ubuntu
    "/usr/lib64/faketime/libfaketimeMT.so.1",  # Fedora
    "/usr/lib/faketime/libfaketimeMT.so.1",  # Arch, Alpine
)


def seed_envs(seed: int | str) -> dict[str, str]:
    """Variables by which Python inside draws the same chance again. The same seed gives the same
    chance to everybody who knows it: a seed that is to be a secret has 256 bits."""
    raw = hashlib.sha256(f"paddock seed {seed}".encode()).digest()
    order = int.from_bytes(hashlib.sha256(raw).digest()[:4], "big") or 1  # 0 would mean: none
    return {SEED: raw.hex(), "PYTHONHASHSEED": str(order)}


def faketime_envs(at: float) -> dict[str, str]:
    """Variables by which clocks inside show the time `at` (seconds since 1970) now, and go on from
    there; none where this host has no libfaketime, which programs inside then cannot load either.

    It is a difference to the real clock, not a moment: every process of the sandbox has the same
    time, whenever it starts. How long something takes is not changed.
    """
    library = faketime_library()
    if library is None:
        return {}
    return {
        "LD_PRELOAD": library,
        "FAKETIME": f"{at - time.time():+.6f}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",  # the same, before 0.9.9
    }


def faketime_library() -> str | None:
    """Return the path of libfaketime, if it is installed."""
    import glob  # only for clocks that are set

    return next((path for place in _LIBRARIES for path in sorted(glob.glob(place))), None)
