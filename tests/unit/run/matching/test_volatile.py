"""What clients make up anew for each request is no difference; everything around it is."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paddock.doors.network.bodies.stable_digests import stable_digest
from paddock.doors.network.secrets.signatures import stable_credential, stable_jwt
from paddock.run.matching.matcher import Matcher
from paddock.run.matching.recorded_step import StepMatch
from paddock.run.matching.rules import Rules, vary_of
from paddock.run.matching.timestamps import Timestamps
from paddock.run.matching.volatile import TABLE
from unit.run.matching.samples import Sent, http, proposed, recorded

A, B = "8f14e45f-ceea-467f-9575-4e4ff2c7a8d1", "0cc175b9-c0f1-46b6-831c-399e26977266"
NAMED = "cfbff0d1-9375-5685-968c-48ce8b15ae17"  # of version 5: computed from a name
DAY, OTHER_DAY = "20240102T030405Z", "20250607T080910Z"
SIGNED = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA%2F{day}%2Feu%2Fs3%2Faws4_request"
SIGNED += "&X-Amz-Date={at}&X-Amz-Expires={expires}&X-Amz-SignedHeaders=host&X-Amz-Signature={sig}"


def presigned(at: str, sig: str, expires: int = 60, key: str = "AKIA") -> str:
    query = SIGNED.format(day=at[:8], at=at, expires=expires, sig=sig * 64)
    return query.replace("AKIA", key)


def same(one: Sent, other: Sent, *vary: str) -> bool:
    rules = Rules(tuple(map(vary_of, vary)))
    was = Matcher([recorded(one)], rules)
    return isinstance(was.propose(proposed(other)), StepMatch)


def varied(one: Sent, other: Sent) -> list[str]:
    past = Matcher([recorded(one)])
    assert isinstance(past.propose(proposed(other)), StepMatch)
    return list(past.varied)


@pytest.mark.parametrize(
    ("name", "one", "other", "is_same"),
    [
        ("x-stripe-client-telemetry", '{"a":1}', '{"a":2}', True),
        ("amz-sdk-invocation-id", A, B, True),
        ("amz-sdk-invocation-id", A, "mine", False),
        ("amz-sdk-request", f"ttl={DAY}; attempt=1; max=5", f"ttl={OTHER_DAY}; attempt=1; max=5",
         True),
        ("amz-sdk-request", "attempt=1; max=5", "attempt=2; max=5", False),
        ("amz-sdk-request", "attempt=1", "attempt=1; max=5", False),
        ("grpc-timeout", "4998m", "4981731u", True),
        ("grpc-timeout", "4998m", "30S", False),
        ("grpc-timeout", "4998m", "soon", False),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==", "x3JJHMbDL1EzLkh9GBhXDw==", True),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==", "short", False),
        ("idempotency-key", A, B, True),
        ("idempotency-key", f"stripe-node-retry-{A}", f"stripe-node-retry-{B}", True),
        ("idempotency-key", f"stripe-node-retry-{A}", B, False),
        ("idempotency-key", A, NAMED, False),
        ("idempotency-key", NAMED, NAMED.replace("cf", "ce"), False),
        ("idempotency-key", A, "order-17", False),
        ("x-tenant", A, B, False),
    ],
)  # fmt: skip
def test_headers_of_clients(name: str, one: str, other: str, is_same: bool) -> None:
    pair = [http("POST", headers={name: value}) for value in (one, other)]
    assert same(*pair) is is_same
    assert same(*pair[::-1]) is is_same
    if is_same:
        assert [label for label in varied(*pair) if label.startswith(f"header {name} (")]


@pytest.mark.parametrize("name", ["amz-sdk-invocation-id", "grpc-timeout", "idempotency-key"])
def test_a_volatile_header_must_be_there(name: str) -> None:
    value = "1S" if name == "grpc-timeout" else A
    assert not same(http(headers={name: value}), http())
    assert not same(http(), http(headers={name: value}))


def test_an_idempotency_key_that_is_used_again_must_be_used_again() -> None:
    def proposals(was: list[str], comes: list[str]) -> list[bool]:
        past = Matcher([recorded(http("POST", headers={"idempotency-key": key}), step)
                     for step, key in enumerate(was, 1)])  # fmt: skip
        found = []
        for key in comes:
            one = past.propose(proposed(http("POST", headers={"idempotency-key": key})))
            found.append(isinstance(one, StepMatch))
            if isinstance(one, StepMatch):
                past.answered(one.row)
        return found

    other = str(uuid.UUID(A[:-1] + "2"))
    assert proposals([A, A], [B, B]) == [True, True]
    assert proposals([A, A], [B, other]) == [True, False]
    assert proposals([A, B], [other, other]) == [True, False]
    assert proposals([A, A], [A, A]) == [True, True]
    assert proposals([A, A], [A, other]) == [True, False]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (presigned(DAY, "a"), presigned(OTHER_DAY, "b"), True),
        (presigned(DAY, "a"), presigned(DAY, "b", expires=600), False),
        (presigned(DAY, "a"), presigned(DAY, "b", key="AKIB"), False),
        ("X-Amz-Signature=" + "a" * 64, "X-Amz-Signature=" + "b" * 64, False),
        ("sv=2024-01-01&se=2024-01-02T03%3A04%3A05Z&sp=r&sig=abcdefghijklmnopqr%3D",
         "sv=2024-01-01&se=2025-01-02T03%3A04%3A05Z&sp=r&sig=zbcdefghijklmnopqr%3D", True),
        ("sv=2024-01-01&se=2024-01-02&sp=r&sig=abcdefghijklmnopqr%3D",
         "sv=2024-01-01&se=2024-01-02&sp=rw&sig=zbcdefghijklmnopqr%3D", False),
        ("sig=abcdefghijklmnopqr", "sig=zbcdefghijklmnopqr", False),
        ("oauth_nonce=a1&oauth_timestamp=1704164645&oauth_signature=x%3D&oauth_token=t",
         "oauth_nonce=b2&oauth_timestamp=1804164645&oauth_signature=y%3D&oauth_token=t", True),
        ("oauth_nonce=a1&oauth_signature=x&oauth_token=t",
         "oauth_nonce=b2&oauth_signature=y&oauth_token=u", False),
        ("AWSAccessKeyId=K&Signature=abcdefghijklmnop%3D&Expires=1704164645",
         "AWSAccessKeyId=K&Signature=bbcdefghijklmnop%3D&Expires=1804164645", True),
        ("Signature=abcdefghijklmnop%3D", "Signature=bbcdefghijklmnop%3D", False),
        (f"timestamp=1&signature={'ab' * 32}", f"timestamp=1&signature={'cd' * 32}", True),
        (f"timestamp=1&a=1&signature={'ab' * 32}", f"timestamp=1&a=2&signature={'cd' * 32}", False),
        ("EIO=4&transport=polling&t=PkX9aB1", "EIO=4&transport=polling&t=PkX9zC2", True),
        ("t=PkX9aB1", "t=PkX9zC2", False),
    ],
)  # fmt: skip
def test_queries_that_are_signed(one: str, other: str, is_same: bool) -> None:
    assert same(http(query=one), http(query=other)) is is_same


def jwt(**claims: Any) -> str:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'RS256'})}.{part(claims)}.{part(claims)[-20:]}"


AWS = "AWS4-HMAC-SHA256 Credential={}/{}/eu/s3/aws4_request, SignedHeaders={}, Signature={}"
OAUTH = 'OAuth oauth_consumer_key="{}", oauth_nonce="{}", oauth_signature="{}"'
DIGEST = 'Digest username="{}", realm="r", nonce="n", uri="/", cnonce="{}", response="{}"'


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (AWS.format("K", "20240102", "host", "a" * 64), AWS.format("K", "20240103", "host", "b1"),
         True),
        (AWS.format("K", "20240102", "host", "ab"), AWS.format("L", "20240102", "host", "ab"),
         False),
        (AWS.format("K", "20240102", "host", "ab"), AWS.format("K", "20240102", "host;x", "ab"),
         False),
        ("ACS3-HMAC-SHA256 Credential=K,SignedHeaders=host,Signature=ab",
         "ACS3-HMAC-SHA256 Credential=K,SignedHeaders=host,Signature=cd", True),
        ("TC3-HMAC-SHA256 Credential=K/2024-01-02/cvm/tc3, SignedHeaders=h, Signature=ab",
         "TC3-HMAC-SHA256 Credential=K/2024-01-03/cvm/tc3, SignedHeaders=h, Signature=cd", True),
        ("TC3-HMAC-SHA256 Credential=K/2024-01-02/cvm/tc3, SignedHeaders=h, Signature=ab",
         "TC3-HMAC-SHA256 Credential=K/2024-01-02/cbs/tc3, SignedHeaders=h, Signature=ab", False),
        ("SharedKey me:abc=", "SharedKey me:def=", True),
        ("SharedKey me:abc=", "SharedKey you:abc=", False),
        (OAUTH.format("me", "1", "a"), OAUTH.format("me", "2", "b"), True),
        (OAUTH.format("me", "1", "a"), OAUTH.format("you", "1", "a"), False),
        (DIGEST.format("me", "1", "a"), DIGEST.format("me", "2", "b"), True),
        (DIGEST.format("me", "1", "a"), DIGEST.format("you", "1", "a"), False),
        ("Bearer " + jwt(iss="me", iat=100, exp=160), "Bearer " + jwt(iss="me", iat=200, exp=260),
         True),
        ("Bearer " + jwt(iss="me", iat=100, exp=160), "Bearer " + jwt(iss="me", iat=100, exp=9999),
         False),
        ("Bearer " + jwt(iss="me", iat=1), "Bearer " + jwt(iss="you", iat=1), False),
    ],
)  # fmt: skip
def test_credentials_that_are_computed_for_each_request(
    one: str, other: str, is_same: bool
) -> None:
    assert stable_credential(one) is not None
    assert (stable_credential(one) == stable_credential(other)) is is_same


@pytest.mark.parametrize("value", ["Bearer sk_live_1", "Basic YTpi", "token", "OAuth abc", "Hawk",
                                   "AWS4-HMAC-SHA256 nonsense", "Bearer a.b.c"])  # fmt: skip
def test_credentials_that_stay_are_compared_whole(value: str) -> None:
    assert stable_credential(value) is None


def test_a_token_in_a_form_may_be_a_newer_one_of_the_same_claims() -> None:
    def grant(token: str) -> Sent:
        body = [("grant_type", "jwt-bearer"), ("assertion", token)]
        return http("POST", "/token", body=body, content="application/x-www-form-urlencoded")

    was = grant(jwt(iss="me", iat=1, exp=61))
    assert same(was, grant(jwt(iss="me", iat=5, exp=65)))
    assert not same(was, grant(jwt(iss="you", iat=5, exp=65)))
    assert stable_jwt("x" * 10) is None


MULTIPART = (
    "--{0}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{1}\r\n--{0}--\r\n"
)  # fmt: skip


def upload(boundary: str, content: str, **headers: str) -> Sent:
    raw = MULTIPART.format(boundary, content).encode()
    kind = f"multipart/form-data; boundary={boundary}"
    digest = stable_digest([(b"content-type", kind.encode())])
    assert digest is not None
    for at in range(0, len(raw), 3):  # in whatever parts it comes
        digest.feed(raw[at : at + 3])
    stable = {"body_stable": digest.record()}
    sent = http("POST", "/up", raw=raw, content=kind, headers=headers)
    return replace(sent, address={**sent.address, **stable})


def test_of_a_multipart_body_the_boundary_may_differ_and_nothing_else() -> None:
    was = upload("----abc", "hello")
    assert same(was, upload("----defghijk", "hello"))
    assert "body without multipart boundary" in varied(was, upload("----def", "hello"))
    assert not same(was, upload("----abc", "hellO"))
    assert not same(was, upload("----def", "hellO"))
    assert not same(was, upload("----def", "hello\r\n------def\r\nmore"))
    # What only looks like one is content.
    assert not same(upload("a", "x--a"), upload("b", "x--b"))
    assert not same(upload("a", "x\r\n--apple"), upload("b", "x\r\n--bpple"))


def test_a_body_of_boundaries_is_compared_as_it_is() -> None:
    """To leave out hundreds of thousands of them would hold up everybody."""
    digest = stable_digest([(b"content-type", b"multipart/form-data; boundary=a")])
    assert digest is not None
    digest.feed(b"\n--a\r" * 2001)
    assert digest.record() is None


def test_a_checksum_may_differ_only_where_the_body_does() -> None:
    def put(boundary: str, content: str, digest: str) -> Sent:
        return upload(boundary, content, **{"x-amz-content-sha256": digest * 64})

    assert same(put("----abc", "x", "a"), put("----def", "x", "b"))
    assert not same(put("----abc", "x", "a"), put("----abc", "x", "b"))


@pytest.mark.parametrize("kind", ["application/json", "image/png", "multipart/form-data"])
def test_any_body_is_any_whether_or_not_rules_can_read_it(kind: str) -> None:
    one, other = http("POST", raw=b"{}", content=kind), http("POST", raw=b"[1, 2]", content=kind)
    assert not same(one, other)
    assert same(one, other, "body=any")
    assert not same(one, http("POST", headers={"content-type": kind}), "body=any")


def at(seconds: float, node: int = 1, sequence: int = 0) -> str:
    """Return a UUID of version 1 of this time."""
    ticks = int(seconds * 1e7) + 0x01B21DD213814000
    times = (ticks & 0xFFFFFFFF, (ticks >> 32) & 0xFFFF, (ticks >> 48) & 0x0FFF)
    return str(uuid.UUID(fields=(*times, 0x80, sequence, node), version=1))


A1, B1 = at(1001, 1, 2), at(1002, 3, 4)


def test_ids_whose_node_was_drawn_belong_together_from_first_sight() -> None:
    """Of UUIDs of version 1 that anything but Python made."""
    moments = Timestamps((1000.0, 1010.0), (5000.0, 5010.0))
    steps = [http("POST", f"/a/{one}", body={"id": one}) for one in (A1, A1, B1)]

    def matches(*ids: tuple[str, str]) -> list[bool]:
        rows = [recorded(sent, step) for step, sent in enumerate(steps, 1)]
        past = Matcher(rows, Rules(moments=moments))
        found = []
        for path, body in ids:
            one = past.propose(proposed(http("POST", f"/a/{path}", body={"id": body})))
            found.append(isinstance(one, StepMatch))
            if isinstance(one, StepMatch):
                past.answered(one.row)
        return found

    a, b, late = at(5001, 7, 8), at(5002, 9, 10), at(6000, 7, 8)
    assert matches((a, a), (a, a), (b, b)) == [True] * 3
    assert matches((a, a), (A1, A1), (b, b)) == [True] * 3  # an answer told the recorded one
    assert matches((a, a), (b, b)) == [True, False]
    assert matches((a, a), (a, a), (a, a)) == [True, True, False]
    assert matches((a, b)) == [False]
    assert matches((late, late)) == [False]


def test_ids_that_begin_with_a_time_may_be_of_this_run() -> None:
    moments = Timestamps((1000.0, 1010.0), (5000.0, 5010.0))
    assert moments.allow(at(1005), at(5005))
    assert moments.allow(f"job_{at(1005)} ran", f"job_{at(5005)} ran")
    assert moments.allow(uuid.UUID(at(1005)).hex, uuid.UUID(at(5005)).hex)
    assert moments.allow(at(1005), at(5005, node=2, sequence=3))
    assert not moments.allow(at(1005), uuid.UUID(at(5005, node=2)).hex)
    assert not moments.allow(at(1005), at(5005, node=2).upper().replace("B", "A"))
    assert not moments.allow(at(1005), at(6000))
    assert not moments.allow(at(900), at(5005))
    seven = "{:012x}7abc8def0123456789ab"
    assert moments.allow(seven.format(1005_000), seven.format(5005_000))
    assert not moments.allow(seven.format(1005_000), seven.format(5005_000)[:-1] + "c")

    def ulid(millis: int, chance: str = "A" * 16) -> str:
        digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
        return "".join(digits[(millis >> 5 * n) & 31] for n in range(9, -1, -1)) + chance

    assert moments.allow(ulid(1005_000), ulid(5005_000))
    assert not moments.allow(ulid(1005_000), ulid(5005_000, "B" * 16))


def test_every_entry_says_who_and_why_and_is_on_the_page() -> None:
    page = (Path(__file__).parents[4] / "docs" / "replay-matching.md").read_text().lower()
    for one in TABLE:
        assert one.client and one.why
        assert one.name.rstrip("*") in page or one.name.replace("goog", "amz") in page, one.name
