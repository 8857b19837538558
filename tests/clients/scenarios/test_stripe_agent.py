"""A test with the plugin, of an agent that uses the official stripe package under faults: recorded
the first time, replayed the second time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from clients.scenarios.support import pytest_in

EXAMPLE = """\
def test_refunds_once(paddock):
    world = {"api.stripe.com": "payments"}
    result = paddock.run(["python", "agent.py"], world=world, faults="flaky")
    assert result.exit_code == 0
    assert len(result.actions(kind="http", path="/v1/refunds")) == 1
"""
AGENT = """\
import os, time, stripe
stripe.ca_bundle_path = os.environ["SSL_CERT_FILE"]
stripe.api_key = "sk_test_of_the_tests"
stripe.max_network_retries = 3


def patiently(call, **words):
    # The SDK retries lost connections; who is told to slow down has to do that itself.
    for pause_s in (0.2, 0.4, 0.8):
        try:
            return call(**words)
        except stripe.RateLimitError:
            time.sleep(pause_s)
    return call(**words)


charge = patiently(stripe.Charge.create, amount=1200, currency="usd", source="tok_visa")
refund = patiently(stripe.Refund.create, charge=charge.id)
assert refund.amount == 1200
for found in patiently(stripe.Charge.list, limit=5).data:
    print(found.id, found.refunded)
"""


def test_the_example_passes_when_it_is_recorded_and_when_it_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_refunds.py").write_text(EXAMPLE)
    (tmp_path / "agent.py").write_text(AGENT)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    recorded = pytest_in(tmp_path)
    assert recorded.returncode == 0, recorded.stdout
    runs = list((tmp_path / "paddock_runs").iterdir())
    replayed = pytest_in(tmp_path, "--paddock-record=none")
    assert replayed.returncode == 0, replayed.stdout
    assert list((tmp_path / "paddock_runs").iterdir()) == runs  # nothing was recorded anew
