"""Formats that many APIs share."""

from __future__ import annotations

from cases import for_each
from paddock.world.kit import is_email_address, iso_timestamp, whole_number


@for_each(
    ("text", "number"),
    [("0", 0), ("42", 42), ("", None), (None, None), ("-1", None), ("1.0", None), ("²", None),
     ("٣", None), ("9" * 10, None)],
)  # fmt: skip
def test_a_whole_number_is_written_in_digits(text: str | None, number: int | None) -> None:
    assert whole_number(text) == number


def test_a_timestamp_is_in_utc() -> None:
    assert iso_timestamp(1_767_225_600.9) == "2026-01-01T00:00:00Z"


def test_addresses_that_mail_could_be_sent_to() -> None:
    assert is_email_address('"a b"@example.com')
    assert not is_email_address("a b@example.com")
    assert not is_email_address("a" * 320 + "@example.com")
