"""Gives every sandbox of this process an id with a marker, so that what it leaves can be found."""

from __future__ import annotations

import secrets

from paddock.doors.machine import box, pool


def mark_ids(marker: str) -> None:
    """From now on ids begin with `marker`: so do directories, layers, host names and cgroups."""

    def new_id() -> str:
        return marker + secrets.token_hex(4)

    box.new_id = pool.new_id = new_id
