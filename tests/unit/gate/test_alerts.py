"""Alerts are written, kept and told; the same one in a loop does not bury the others."""

from __future__ import annotations

from paddock.gate import alerts
from paddock.gate.alerts import Alerts, RaisedAlert
from paddock.model.events import Alert


class Journal:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[tuple[Alert, int | None]] = []

    def record(self, event: Alert, step: int | None) -> None:
        self.written.append((event, step))


def test_an_alert_is_written_kept_and_told() -> None:
    journal, told = Journal(), list[RaisedAlert]()
    found = Alerts(journal.record)
    found.listeners.append(told.append)
    found.raised("egress.denied", {"host": "evil.example"}, 3)
    assert journal.written == [(Alert("egress.denied", 1, {"host": "evil.example"}), 3)]
    assert told == found.all()
    [alert] = told
    assert (alert.event, alert.step) == journal.written[0]
    assert (alert.name, alert.about, alert.times) == ("egress.denied", {"host": "evil.example"}, 1)
    assert alert.at > 0


def test_the_same_alert_again_is_counted_with_the_next() -> None:
    journal = Journal()
    found = Alerts(journal.record)
    for _ in range(5):
        found.raised("egress.denied", {"host": "evil.example"})
    found.raised("egress.denied", {"host": "other.example"})
    hosts = [event.about["host"] for event, _ in journal.written]
    assert hosts == ["evil.example", "other.example"]
    key = ("egress.denied", repr(sorted({"host": "evil.example"}.items())))
    told_at, missed = found._known[key]
    found._known[key] = (told_at - alerts.QUIET_S, missed)
    found.raised("egress.denied", {"host": "evil.example"})
    assert journal.written[-1][0].times == 5


def test_a_listener_that_fails_does_not_stop_the_others() -> None:
    told: list[RaisedAlert] = []
    found = Alerts(Journal().record)

    def broken(alert: RaisedAlert) -> None:
        raise RuntimeError("no")

    found.listeners += [broken, told.append]
    found.raised("x", {})
    assert len(told) == 1


def test_memory_stays_bounded() -> None:
    found = Alerts(Journal().record)
    for number in range(3 * alerts.MAX_KEPT):
        found.raised("x", {"n": number})
    assert len(found.all()) == alerts.MAX_KEPT
    assert len(found._known) <= alerts._MAX_KNOWN


def test_a_flood_of_one_name_hides_no_other() -> None:
    found = Alerts(Journal().record)
    found.raised("secret.misplaced", {"secret": "KEY"})
    for number in range(5 * alerts.MAX_KEPT):
        found.raised("egress.denied", {"host": f"{number}.example"})
    assert found.all()[0].name == "secret.misplaced"
