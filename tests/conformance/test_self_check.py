"""Every driver keeps the contract of `fence.driver`: the suite that ships with it, on this host."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from paddock.fence.driver import Driver
from paddock.fence.fake import FakeDriver
from paddock.fence.registry import driver_class, driver_names
from paddock.fence.self_check import CHECKS, CheckResult, self_check
from paddock.state.home import Home

CLASSES = [*map(driver_class, driver_names()), FakeDriver]


@pytest.mark.parametrize("driver", CLASSES, ids=lambda kind: kind.name)
def test_a_driver_keeps_its_contract(driver: type[Driver], tmp_path: Path) -> None:
    results = asyncio.run(check(driver, Home(tmp_path / "home")))
    assert len(results) == len(CHECKS)
    failures = [f"{result.name}: {result.failure}" for result in results if result.failure]
    assert not failures, "\n" + "\n".join(failures)
    assert sum(result.is_held for result in results) >= 12


async def check(kind: type[Driver], home: Home) -> list[CheckResult]:
    """Open a driver, check it, and close it."""
    home.make()
    driver = await kind.open(home)
    try:
        return await self_check(driver)
    finally:
        driver.close()
