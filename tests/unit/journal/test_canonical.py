"""RFC 8785: the vectors of the RFC and of its test suite, what is refused, and both ways agree."""

from __future__ import annotations

import enum
import json
import math
import struct
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.journal.canonical import MAX_DEPTH, canonical, canonical_text, exact_text, number
from paddock.model.errors import InvalidInput

# Appendix B of the RFC: a double in hex, and how it is printed.
APPENDIX_B = """
    0000000000000000 0
    8000000000000000 0
    0000000000000001 5e-324
    8000000000000001 -5e-324
    7fefffffffffffff 1.7976931348623157e+308
    ffefffffffffffff -1.7976931348623157e+308
    4340000000000000 9007199254740992
    c340000000000000 -9007199254740992
    4430000000000000 295147905179352830000
    44b52d02c7e14af5 9.999999999999997e+22
    44b52d02c7e14af6 1e+23
    44b52d02c7e14af7 1.0000000000000001e+23
    444b1ae4d6e2ef4e 999999999999999700000
    444b1ae4d6e2ef4f 999999999999999900000
    444b1ae4d6e2ef50 1e+21
    3eb0c6f7a0b5ed8c 9.999999999999997e-7
    3eb0c6f7a0b5ed8d 0.000001
    41b3de4355555553 333333333.3333332
    41b3de4355555554 333333333.33333325
    41b3de4355555555 333333333.3333333
    41b3de4355555556 333333333.3333334
    41b3de4355555557 333333333.33333343
    becbf647612f3696 -0.0000033333333333333333
    43143ff3c1cb0959 1424953923781206.2
"""
# The published suite of numbers begins with these, goes on with 2,000 from 2^52 on, then random.
SUITE_STATIC = """
    0000000000000000 8000000000000000 0000000000000001 8000000000000001 c46696695dbd1cc3
    c43211ede4974a35 c3fce97ca0f21056 c3c7213080c1a6ac c39280f39a348556 c35d9b1f5d20d557
    c327af4c4a80aaac c2f2f2a36ecd5556 c2be51057e155558 c28840d131aaaaac c253670dc1555557
    c21f0b4935555557 c1e8d5d42aaaaaac c1b3de4355555556 c17fca0555555556 c1496e6aaaaaaaab
    c114585555555555 c0e046aaaaaaaaab c0aa0aaaaaaaaaaa c074d55555555555 c040aaaaaaaaaaab
    c00aaaaaaaaaaaab bfd5555555555555 bfa1111111111111 bf6b4e81b4e81b4f bf35d867c3ece2a5
    bf0179ec9cbd821e becbf647612f3696 be965e9f80f29212 be61e54c672874db be2ca213d840baf8
    bdf6e80fe033c8c6 bdc2533fe68fd3d2 bd8d51ffd74c861c bd5774ccac3d3817 bd22c3d6f030f9ac
    bcee0624b3818f79 bcb804ea293472c7 bc833721ba905bd3 bc4ebe9c5db3c61e bc18987d17c304e5
    bbe3ad30dfcf371d bbaf7b816618582f bb792f9ab81379bf bb442615600f9499 bb101e77800c76e1
    bad9ca58cce0be35 baa4a1e0a3e6fe90 ba708180831f320d ba3a68cd9e985016 446696695dbd1cc3
    443211ede4974a35 43fce97ca0f21056 43c7213080c1a6ac 439280f39a348556 435d9b1f5d20d557
    4327af4c4a80aaac 42f2f2a36ecd5556 42be51057e155558 428840d131aaaaac 4253670dc1555557
    421f0b4935555557 41e8d5d42aaaaaac 41b3de4355555556 417fca0555555556 41496e6aaaaaaaab
    4114585555555555 40e046aaaaaaaaab 40aa0aaaaaaaaaaa 4074d55555555555 4040aaaaaaaaaaab
    400aaaaaaaaaaaab 3fd5555555555555 3fa1111111111111 3f6b4e81b4e81b4f 3f35d867c3ece2a5
    3f0179ec9cbd821e 3ecbf647612f3696 3e965e9f80f29212 3e61e54c672874db 3e2ca213d840baf8
    3df6e80fe033c8c6 3dc2533fe68fd3d2 3d8d51ffd74c861c 3d5774ccac3d3817 3d22c3d6f030f9ac
    3cee0624b3818f79 3cb804ea293472c7 3c833721ba905bd3 3c4ebe9c5db3c61e 3c18987d17c304e5
    3be3ad30dfcf371d 3baf7b816618582f 3b792f9ab81379bf 3b442615600f9499 3b101e77800c76e1
    3ad9ca58cce0be35 3aa4a1e0a3e6fe90 3a708180831f320d 3a3a68cd9e985016 4024000000000000
    4014000000000000 3fe0000000000000 3fa999999999999a 3f747ae147ae147b 3f40624dd2f1a9fc
    3f0a36e2eb1c432d 3ed4f8b588e368f1 3ea0c6f7a0b5ed8d 3e6ad7f29abcaf48 3e35798ee2308c3a
    3ed539223589fa95 3ed4ff26cd5a7781 3ed4f95a762283ff 3ed4f8c60703520c 3ed4f8b72f19cd0d
    3ed4f8b5b31c0c8d 3ed4f8b58d1c461a 3ed4f8b5894f7f0e 3ed4f8b588ee37f3 3ed4f8b588e47da4
    3ed4f8b588e3849c 3ed4f8b588e36bb5 3ed4f8b588e36937 3ed4f8b588e368f8 3ed4f8b588e368f1
    3ff0000000000000 bff0000000000000 bfeffffffffffffa bfeffffffffffffb 3feffffffffffffa
    3feffffffffffffb 3feffffffffffffc 3feffffffffffffe bfefffffffffffff bfefffffffffffff
    3fefffffffffffff 3fefffffffffffff 3fd3333333333332 3fd3333333333333 3fd3333333333334
    0010000000000000 000ffffffffffffd 000fffffffffffff 7fefffffffffffff ffefffffffffffff
    4340000000000000 c340000000000000 4430000000000000 44b52d02c7e14af5 44b52d02c7e14af6
    44b52d02c7e14af7 444b1ae4d6e2ef4e 444b1ae4d6e2ef4f 444b1ae4d6e2ef50 3eb0c6f7a0b5ed8c
    3eb0c6f7a0b5ed8d 41b3de4355555553 41b3de4355555554 41b3de4355555555 41b3de4355555556
    41b3de4355555557 becbf647612f3696 43143ff3c1cb0959
"""
SUITE_SHA256 = {
    1_000: "be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687",
    10_000: "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892",
}
DOCUMENTS = [
    ('[56, {"d": true, "10": null, "1": [ ]}]', '[56,{"1":[],"10":null,"d":true}]'),
    (
        '{"peach": "a", "p\\u00e9ch\\u00e9": "b", "p\\u00eache": "c", "sin": "d"}',
        '{"peach":"a","péché":"b","pêche":"c","sin":"d"}',
    ),
    (
        '{"1": {"f": {"f": "hi","F": 5} ,"\\n": 56.0}, "10": { }, "": "empty", "a": { },'
        ' "111": [ {"e": "yes","E": "no" } ], "A": { }}',
        '{"":"empty","1":{"\\n":56,"f":{"F":5,"f":"hi"}},"10":{},'
        '"111":[{"E":"no","e":"yes"}],"A":{},"a":{}}',
    ),
    ('{"Unnormalized Unicode":"A\\u030a"}', '{"Unnormalized Unicode":"A\u030a"}'),
    (
        '{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],'
        ' "string": "\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/",'
        ' "literals": [null, true, false]}',
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    ),
    (
        '{"\\u20ac": "Euro Sign", "\\r": "Carriage Return", "\\u000a": "Newline", "1": "One",'
        ' "\\u0080": "Control\\u007f", "\\ud83d\\ude02": "Smiley", "\\u00f6": "o",'
        ' "\\ufb33": "Dalet", "</script>": "Browser Challenge"}',
        '{"\\n":"Newline","\\r":"Carriage Return","1":"One","</script>":"Browser Challenge",'
        '"\u0080":"Control\u007f","\u00f6":"o","\u20ac":"Euro Sign","\U0001f602":"Smiley",'
        '"\ufb33":"Dalet"}',
    ),
]
SAFE = st.integers(min_value=-(2**53), max_value=2**53)
TEXT = st.text()  # hypothesis makes no lone surrogates here
VALUES = st.recursive(
    st.none() | st.booleans() | SAFE | TEXT | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


class Colour(enum.StrEnum):
    RED = "red"


def _double(digits: str) -> float:
    return struct.unpack(">d", bytes.fromhex(digits.rjust(16, "0")))[0]


@for_each(
    ("digits", "text"), list(zip(APPENDIX_B.split()[::2], APPENDIX_B.split()[1::2], strict=True))
)
def test_doubles_are_printed_as_in_appendix_b_of_the_rfc(digits: str, text: str) -> None:
    assert number(_double(digits)) == text


def test_the_published_suite_of_numbers_has_its_published_hash() -> None:
    lines: list[str] = []
    hashed = {}
    for value in _suite_numbers(max(SUITE_SHA256)):
        digits = f"{struct.unpack('>Q', struct.pack('>d', value))[0]:x}"
        lines.append(f"{digits},{number(value)}\n")
        if len(lines) in SUITE_SHA256:
            hashed[len(lines)] = sha256("".join(lines).encode()).hexdigest()
    assert hashed == SUITE_SHA256


def _suite_numbers(count: int) -> list[float]:
    """The sequence as its publisher defines it: fixed, serial, then from a chain of SHA-256."""
    numbers = [_double(digits) for digits in SUITE_STATIC.split()]
    numbers += [_double(f"{0x0010000000000000 + n:016x}") for n in range(2000)]
    block = bytes(32)
    while len(numbers) < count:
        block = sha256(block).digest()
        values = struct.unpack("<4d", block)
        numbers += [value for value in values if value != 0 and math.isfinite(value)]
    return numbers[:count]


@pytest.mark.parametrize(("source", "expected"), DOCUMENTS)
def test_documents_of_the_published_suite_come_out_as_published(source: str, expected: str) -> None:
    assert canonical(json.loads(source)) == expected.encode()


@given(VALUES)
def test_the_quick_way_and_the_exact_way_give_the_same_text(value: Any) -> None:
    assert canonical_text(value) == exact_text(value)


@given(VALUES)
def test_reading_what_was_printed_gives_the_value_back(value: Any) -> None:
    # A reader has doubles only: the digits of a large one are those of no exact integer.
    assert json.loads(canonical(value), parse_int=float) == value


@given(st.dictionaries(TEXT, SAFE, max_size=6))
def test_the_order_of_insertion_leaves_no_trace(value: dict[str, int]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)


def test_keys_sort_by_utf16_units_and_not_by_code_points() -> None:
    assert canonical({"\ufb33": 1, "\U0001f602": 2}) == '{"\U0001f602":2,"\ufb33":1}'.encode()


@for_each(
    "value",
    [
        float("nan"),
        float("inf"),
        [float("-inf")],
        2**53 + 1,
        {"a": [-(2**53) - 1]},
        10**400,
        "\ud800",
        {"\udfff": 1},
        ["\udc00\ud800"],
        {1: "a"},
        {"a": {None: 1}},
        {"a": {1, 2}},
        b"bytes",
        object(),
    ],
)
def test_what_json_cannot_say_exactly_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        canonical(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidInput, match="nested deeper"):
        canonical(loop)


def test_depth_is_bounded_and_the_bound_itself_is_allowed() -> None:
    assert canonical(_nested(MAX_DEPTH)) == b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    with pytest.raises(InvalidInput):
        canonical(_nested(MAX_DEPTH + 1))


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_relatives_of_plain_types_are_spelled_like_them() -> None:
    value = {"a": Colour.RED, "b": MappingProxyType({"c": (1, True)}), Colour.RED: 2.0}
    assert canonical(value) == b'{"a":"red","b":{"c":[1,true]},"red":2}'


@pytest.mark.parametrize("value", [1e20, -1e20, 2.0**53, 2.0**60, 123456789012345680000.0])
def test_canonical_text_reads_back_as_the_same_text(value: float) -> None:
    text = canonical_text({"n": value})
    assert canonical_text(json.loads(text)) == text
