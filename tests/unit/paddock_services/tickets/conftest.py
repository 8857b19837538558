"""Closes what the tests of a service opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from unit.paddock_services.chat.rig import close_all


@pytest.fixture(autouse=True)
def _stores_are_closed() -> Iterator[None]:
    yield
    close_all()
