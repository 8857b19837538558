"""The law of HTTP/1 here: what goes on is one message that a strict parser reads as we did."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fuzz import http1_fuzz
from fuzz.http1_fuzz import check_answer, check_request, make_answer, make_request, pieces

FUZZ_S = 30.0
_few = settings(suppress_health_check=list(HealthCheck))
_parts = st.lists(st.sampled_from([*http1_fuzz.SPICES, *http1_fuzz.HEADERS, b"\r\n"]), max_size=12)


@_few
@given(rng=st.randoms(use_true_random=False))
def test_request_that_goes_on_is_read_by_others_as_by_us(rng: random.Random) -> None:
    check_request(pieces(rng, make_request(rng)))


@_few
@given(rng=st.randoms(use_true_random=False))
def test_answer_that_goes_on_is_read_by_others_as_by_us(rng: random.Random) -> None:
    check_answer(make_answer(rng))


@_few
@given(parts=_parts, body=st.sampled_from(http1_fuzz.BODIES))
@example(parts=[b"Content-Length: 5", b"\r\n", b"Transfer-Encoding: chunked"], body=b"hello")
@example(parts=[b"\r\n", b"\r\n", b"Content-Length: 3\r\n"], body=b"hello")
def test_any_mixture_of_headers_goes_on_as_one_request_or_not_at_all(
    parts: list[bytes], body: bytes
) -> None:
    start = b"POST /a HTTP/1.1\r\nHost: example.com\r\n"
    check_request([start + b"".join(parts) + b"\r\n\r\n", body])


def test_plain_messages_pass_so_that_the_law_is_not_empty() -> None:
    start = b"POST /a HTTP/1.1\r\nHost: example.com\r\n"
    chunked = start + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    assert check_request([start + b"Content-Length: 5\r\n\r\nhello" + chunked]) == 2
    assert check_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def test_body_of_a_status_that_has_none_is_left_out() -> None:
    for status in (204, 205, 304):
        assert check_answer(b"HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\nhello" % status)


def test_law_notices_a_second_request() -> None:
    with pytest.raises(AssertionError):
        http1_fuzz.read_strictly(http1_fuzz.SECOND * 2)


@pytest.mark.thorough
def test_other_random_messages_of_each_run_keep_the_law() -> None:
    assert http1_fuzz.main(FUZZ_S) > 0
