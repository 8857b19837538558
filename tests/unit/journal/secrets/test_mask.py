"""Secrets are found in every spelling that a tool may give them, whole and in pieces."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.journal.canonical import canonical_text
from paddock.journal.secrets.mask import Masker
from paddock.model.errors import InvalidInput

SECRETS = [
    "sk-live-9aZ/+x0Qe",
    'with "quotes" & \\back\\slashes\\\\',
    "-----BEGIN KEY-----\nMC4CAQAw/+BQYDK2Vw\n-----END KEY-----\n",
    "pässwörd 🔑 geheim",
    "a b+c%d%20",
    "\\\\\\\\\\\\\"'/\t",
    "aaaaaa",
    "x" * 300,
]
SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda s: s,
    "json": lambda s: json.dumps(s, ensure_ascii=False),
    "json in ascii": json.dumps,
    "json in json": lambda s: json.dumps(json.dumps({"a": s})),
    "json in json in json": lambda s: json.dumps(json.dumps(json.dumps([s]))),
    "escaped slashes": lambda s: json.dumps(s).replace("/", "\\/"),
    "unicode escapes": lambda s: "".join(f"\\u{unit:04X}" for unit in _utf16(s)),
    "url": quote,
    "url, nothing safe": lambda s: quote(s, safe=""),
    "url, form": quote_plus,
    "url, small hex": lambda s: re.sub("%..", lambda m: m[0].lower(), quote(s)),
    "url, every byte": lambda s: "".join(f"%{byte:02x}" for byte in s.encode()),
    "url, every other character": lambda s: "".join(
        quote(c, safe="") if at % 2 else "".join(f"%{b:02X}" for b in c.encode())
        for at, c in enumerate(s)
    ),
    "url in url": lambda s: quote(quote(s, safe=""), safe=""),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    **{
        f"base64 after {shift}, before {rest}": (
            lambda s, shift=shift, rest=rest: base64.b64encode(
                b"p" * shift + s.encode() + b"q" * rest
            ).decode()
        )
        for shift in range(4)
        for rest in range(3)
    },
    "base64 for urls": lambda s: base64.urlsafe_b64encode(b"u:" + s.encode()).decode().rstrip("="),
    "base64 in lines": lambda s: base64.encodebytes(b"Authorization " * 3 + s.encode()).decode(),
    "base64 in lines in json": lambda s: json.dumps(
        base64.encodebytes(b"Au" * 40 + s.encode()).decode()
    ),
    "base64 in a url": lambda s: quote(base64.b64encode(b"?" + s.encode()).decode(), safe=""),
}


def _utf16(text: str) -> list[int]:
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]


@for_each("spelling", SPELLINGS)
@for_each("secret", SECRETS, ids=lambda s: s[:8].strip())
def test_secret_is_masked_in_this_spelling(secret: str, spelling: str) -> None:
    masker = Masker({"KEY": secret})
    shown = SPELLINGS[spelling](secret)
    masked = masker.mask_text(f"before {shown} after")
    assert "{{secret:KEY}}" in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert shown not in masked
    assert masker.is_clean(masked.replace("{{secret:KEY}}", ""))


@for_each("spelling", SPELLINGS)
@for_each("secret", SECRETS, ids=lambda s: s[:8].strip())
def test_secret_in_a_value_shows_in_its_json_text(secret: str, spelling: str) -> None:
    """What the writer relies on: it looks at the text of a body before it looks at its strings."""
    assert not Masker({"KEY": secret}).is_clean(
        canonical_text({"a": [SPELLINGS[spelling](secret)]})
    )


@for_each("spelling", SPELLINGS)
@for_each("secret", [s for s in SECRETS if len(s) < 100], ids=lambda s: s[:8].strip())
def test_secret_split_at_any_place_of_a_stream_is_masked(secret: str, spelling: str) -> None:
    masker = Masker({"KEY": secret})
    shown = f"see {SPELLINGS[spelling](secret)} end"
    for at in range(len(shown) + 1):
        stream = masker.stream()
        out = stream.feed(shown[:at]) + stream.feed(shown[at:]) + stream.finish()
        assert "{{secret:KEY}}" in out, at
        assert masker.is_clean(out.replace("{{secret:KEY}}", " ")), at


@pytest.mark.thorough
@for_each("secret", SECRETS, ids=lambda s: s[:8].strip())
@for_each("spelling", ["plain", "json in ascii", "url, nothing safe", "hex"])
def test_secret_that_comes_character_by_character_is_masked(secret: str, spelling: str) -> None:
    masker = Masker({"KEY": secret})
    shown = f"see {SPELLINGS[spelling](secret)}, then more"
    stream = masker.stream()
    out = "".join(map(stream.feed, shown)) + stream.finish()
    assert out == masker.mask_text(shown)


@given(st.lists(st.text(alphabet="seckrt-%\\ \n7", max_size=8), max_size=12))
def test_stream_loses_and_invents_nothing(chunks: list[str]) -> None:
    masker = Masker({"KEY": "secret-key"})
    stream = masker.stream()
    out = "".join(map(stream.feed, chunks)) + stream.finish()
    assert out == masker.mask_text("".join(chunks))


def test_stream_holds_back_no_more_than_the_beginning_of_a_secret() -> None:
    stream = Masker({"KEY": "sk-live-0123456789"}).stream()
    assert stream.feed("the answer is 42\n") == "the answer is 42\n"
    assert stream.feed("password: ") == "password: "
    assert stream.feed("a sk-l") == "a "
    assert stream.feed("izard") == "sk-lizard"
    assert stream.feed("50%") == "50"
    assert stream.finish() == "%"


def test_stream_without_secrets_passes_everything_on_at_once() -> None:
    stream = Masker().stream()
    assert stream.feed("anything %") == "anything %"
    assert stream.finish() == ""


@pytest.mark.parametrize("secret", ["", "a", "12345"])
def test_short_secret_is_refused_with_its_name(secret: str) -> None:
    with pytest.raises(InvalidInput, match="the secret PIN has fewer than 6"):
        Masker({"PIN": secret})


@pytest.mark.parametrize("name", ["", "a b", "{{x}}", "a" * 200, "ü"])
def test_name_that_would_not_stand_out_in_a_placeholder_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        Masker({name: "long enough"})


def test_values_keys_and_numbers_are_masked() -> None:
    masker = Masker({"A": "123456789", "B": "hunter22"})
    value = {
        "hunter22": [1, None, True, {"n": 123456789}],
        "f": 1.5,
        "t": ("hunter22", "fine"),
    }
    assert masker.mask(value) == {
        "{{secret:B}}": [1, None, True, {"n": "{{secret:A}}"}],
        "f": 1.5,
        "t": ["{{secret:B}}", "fine"],
    }


def test_two_keys_that_become_one_keep_both_values() -> None:
    masked = Masker({"A": "hunter22"}).mask({"hunter22": 1, "{{secret:A}}": 2})
    assert sorted(masked.values()) == [1, 2]


def test_secret_inside_another_or_overlapping_one_leaves_no_rest() -> None:
    masker = Masker({"LONG": "abcdefghijkl", "SHORT": "defghi", "NEXT": "jklmnopq"})
    assert masker.mask_text("x abcdefghijkl y") == "x {{secret:LONG}} y"
    assert masker.mask_text("x abcdefghijklmnopq y") == "x {{secret:LONG}} y"


def test_text_without_secrets_is_returned_as_it_is() -> None:
    masker = Masker({"A": "sk-live-0123456789"})
    text = "sk-live-012345678 %73%6b sk-live \\u0073k " * 50
    assert masker.mask_text(text) == text


def test_secret_that_looks_like_a_placeholder_is_masked_once() -> None:
    assert Masker({"A": "secret:A"}).mask_text("secret:A") == "{{secret:A}}"


def test_secret_of_backslashes_alone_does_not_mask_every_backslash() -> None:
    masker = Masker({"A": "\\" * 6})
    assert masker.mask_text("C:\\Users \\n") == "C:\\Users \\n"
    assert masker.mask_text("x" + "\\" * 6 + "y") == "x{{secret:A}}y"


def test_hostile_text_does_not_take_hold_of_the_search() -> None:
    masker = Masker(
        {"A": '\\"\\"\\"\\"\\"\\"\\"\\"', "B": "\\\\\\\\\\\\\\\\n", "C": "%25%25%25%25"}
    )
    for text in ("\\" * 50_000, '\\"' * 20_000 + "x", "%25" * 20_000, "\\u005c" * 8_000):
        masker.mask_text(text)
        stream = masker.stream()
        stream.feed(text)
        stream.finish()
