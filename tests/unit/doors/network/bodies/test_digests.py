"""What tells bodies apart whose numbers the journal spells in one way."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.doors.network.bodies.digests import _WHOLE_FLOAT, measure, spelling_hash
from paddock.journal.secrets.value_hmac import ValueHmac

# As it was first written: right, and quadratic in the length of a run of digits.
PLAIN = re.compile(rb"[0-9](?:\.0*[,\]}\s]|\.?[0-9]*[eE][+-]?[0-9])")


@given(st.text("019.eE+-,]} \t", max_size=40))
def test_numbers_are_found_as_by_the_plain_expression(text: str) -> None:
    raw = text.encode()
    assert (_WHOLE_FLOAT.search(raw) is None) == (PLAIN.search(raw) is None)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", [b"01", b"0.", b"1.0", b"1e", b"0.00"], ids=str)
def test_a_long_run_of_digits_is_read_once(piece: bytes) -> None:
    """It held the whole process for minutes, with every other sandbox in it."""
    text = (piece * (1 << 20))[: 1 << 20].decode()
    raw = json.dumps({"data": text}).encode()[: 1 << 20]
    spelling_hash(raw, {}, ValueHmac(b"k" * 32))
    assert measure(raw)["body_bytes"] == len(raw)
