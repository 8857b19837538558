from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.paddock_services.payments.accounts import Account


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    """After each test its books must still be sound."""
    account = Account(tmp_path / "payments.sqlite")
    yield account
    assert account.service.invariants() == []
    account.store.close()
