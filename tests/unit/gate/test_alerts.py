"""Alerts are written, kept and told; the same one in a loop does not bury the others."""

from __future__ import annotations

from paddock.gate import alerts
from paddock.gate.alerts import Alert, Alerts


def test_an_alert_is_written_kept_and_told() -> None:
    written: list[Alert] = []
    told: list[Alert] = []
    found = Alerts(written.append)
    found.listeners.append(told.append)
    found.raised("egress.denied", {"host": "evil.example"}, 3)
    assert written == told == found.all()
    assert (written[0].name, written[0].step) == ("egress.denied", 3)


def test_the_same_alert_again_is_counted_with_the_next() -> None:
    written: list[Alert] = []
    found = Alerts(written.append)
    for _ in range(5):
        found.raised("egress.denied", {"host": "evil.example"})
    found.raised("egress.denied", {"host": "other.example"})
    assert [a.about["host"] for a in written] == ["evil.example", "other.example"]
    key = ("egress.denied", repr(sorted({"host": "evil.example"}.items())))
    told_at, missed = found._known[key]
    found._known[key] = (told_at - alerts.QUIET_S, missed)
    found.raised("egress.denied", {"host": "evil.example"})
    assert written[-1].times == 5


def test_a_listener_that_fails_does_not_stop_the_others() -> None:
    told: list[Alert] = []
    found = Alerts(lambda alert: None)

    def broken(alert: Alert) -> None:
        raise RuntimeError("no")

    found.listeners += [broken, told.append]
    found.raised("x", {})
    assert len(told) == 1


def test_memory_stays_bounded() -> None:
    found = Alerts(lambda alert: None)
    for number in range(3 * alerts.MAX_KEPT):
        found.raised("x", {"n": number})
    assert len(found.all()) == alerts.MAX_KEPT
    assert len(found._known) <= alerts._MAX_KNOWN


def test_a_flood_of_one_name_hides_no_other() -> None:
    found = Alerts(lambda alert: None)
    found.raised("secret.misplaced", {"secret": "KEY"})
    for number in range(5 * alerts.MAX_KEPT):
        found.raised("egress.denied", {"host": f"{number}.example"})
    assert found.all()[0].name == "secret.misplaced"
