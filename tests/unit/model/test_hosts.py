"""One spelling for each host, and patterns that mean no host by accident."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.model.hosts import HostPattern, canonical_host, is_address

_labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
_names = st.lists(_labels, min_size=2, max_size=5).map(
    lambda labels: ".".join([*labels, "example"])
)


@for_each(
    ("text", "host"),
    [
        ("API.Example.COM", "api.example.com"),
        ("api.example.com.", "api.example.com"),
        ("localhost", "localhost"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("r3---sn-a.example", "r3---sn-a.example"),
        ("xn--BCHER-kva.example", "xn--bcher-kva.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("bu\u0308cher.example", "xn--bcher-kva.example"),
        ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
        ("\uff41\uff50\uff49.example", "api.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("\u2460.\u2461.\u2462.\u2463", "1.2.3.4"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::00A", "2001:db8::a"),
        ("[::ffff:1.2.3.4]", "1.2.3.4"),
        ("::FFFF:0102:0304", "1.2.3.4"),
        ("1.example", "1.example"),
        ("0x7f.example", "0x7f.example"),
    ],
)
def test_every_spelling_of_a_host_gives_one(text: str, host: str) -> None:
    assert canonical_host(text) == host


@for_each(
    "text",
    ["127.1", "0x7f.1", "0x7f000001", "017700000001", "2130706433", "127.0.0.01", "0177.0.0.1",
     "1.2.3.4.5", "256.0.0.1", "127.0.0.0x1", "127.0.0.1..", "example.0x",
     "\uff11\uff12\uff17.\uff11", "[127.0.0.1]", "fe80::1%eth0", "[::1", "::1]", "::1::", "1:2",
     ":", "[]"],
)  # fmt: skip
def test_a_doubtful_spelling_of_an_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        canonical_host(text)


@for_each(
    "text",
    ["", ".", "..", "a..b", ".a", "a b", "a/b", "a@b", "a?b", "a#b", "a\\b", "a%2e.b", "a\nb",
     "a\0b", "a:80", "-a.example", "a-.example", "*", "*.example", "a*", "a" * 64 + ".example",
     "a." * 127 + "ab", "a" * 2000, "ä" * 60 + ".example", "\ud800.example", "a℀b.example",
     "a\u2024b.example", "a⒓b.example", "ab--ü.example", "\u0301a.example"],
)  # fmt: skip
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        canonical_host(text)


@pytest.mark.parametrize("value", [None, 1, b"a.example", ["a"], True])
def test_what_is_no_text_is_no_host(value: object) -> None:
    with pytest.raises(InvalidInput):
        canonical_host(value)  # type: ignore[arg-type]


@for_each("odd", ["ß", "ẞ", "ς", "\u200d", "\u200c", "\u00ad", "\u3164", "\ufe0f"])
def test_a_letter_that_programs_read_differently_is_refused(odd: str) -> None:
    with pytest.raises(InvalidInput):
        canonical_host(f"a{odd}b.example")


@pytest.mark.parametrize(
    "lookalike",
    [
        "\u0430pi.example.com",
        "ap\u0456.example.com",
        "api.ex\u0430mple.com",
        "\u03b1pi.example.com",
    ],
)
def test_a_name_in_letters_of_another_script_is_another_name(lookalike: str) -> None:
    assert canonical_host(lookalike).count("xn--") == 1
    assert not HostPattern.parse("api.example.com").matches(canonical_host(lookalike))
    assert not HostPattern.parse("*.example.com").matches(canonical_host("api.ex\u0430mple.com"))


def test_the_longest_names_that_dns_has_are_hosts() -> None:
    longest = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    assert canonical_host(longest) == longest
    with pytest.raises(InvalidInput):
        canonical_host(longest + "d")


@given(st.text(max_size=30) | st.from_regex(r"[0-9a-fx.:\[\]%-]{1,20}", fullmatch=True))
def test_the_spelling_of_a_spelling_is_itself(text: str) -> None:
    try:
        host = canonical_host(text)
    except InvalidInput:
        return
    assert host.isascii()
    assert canonical_host(host) == host
    assert is_address(host) is (":" in host or host.replace(".", "").isdigit())


@given(st.text(st.characters(min_codepoint=0x80), min_size=1, max_size=4))
def test_names_in_other_scripts_are_spelled_as_uts46_does(label: str) -> None:
    idna = pytest.importorskip("idna")
    try:
        ours = canonical_host(f"a{label}b.example")
        theirs = idna.encode(f"a{label}b.example", uts46=True, std3_rules=True).decode()
    except (InvalidInput, idna.IDNAError):
        return
    assert ours == theirs


@for_each(
    ("pattern", "host", "is_meant"),
    [
        ("api.example.com", "api.example.com", True),
        ("api.example.com", "x.api.example.com", False),
        ("api.example.com", "xapi.example.com", False),
        ("*.internal.example", "a.internal.example", True),
        ("*.internal.example", "a.b.internal.example", True),
        ("*.internal.example", "internal.example", False),
        ("*.internal.example", "evilinternal.example", False),
        ("*.internal.example", "internal.example.evil.test", False),
        ("*.internal.example", "a.internal.example.evil.test", False),
        ("*.Internal.Example.", "a.internal.example", True),
        ("*.bücher.example", "a.xn--bcher-kva.example", True),
        ("[::1]", "::1", True),
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.5", "110.0.0.5", False),
    ],
)
def test_suffix_rule_does_not_match_lookalike_domain(
    pattern: str, host: str, is_meant: bool
) -> None:
    assert HostPattern.parse(pattern).matches(host) is is_meant


@for_each(
    "text",
    ["*", "**", "*.", "*.*", "*.com", "*.example", "*.co.uk", "*.com.au", "**.example.com",
     "a.*.example.com", "a*.example.com", "*a.example.com", "*example.com", "api.example.*",
     "*.1.2.3.4", "*.0.0.1", "*.[::1]", "*.::1", "..example.com", "*..example.com", ""],
)  # fmt: skip
def test_a_wildcard_that_would_mean_too_much_or_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        HostPattern.parse(text)


@pytest.mark.parametrize("text", ["*", "a.*.example", "*.com", "a*.example.com"])
def test_a_refused_wildcard_comes_with_what_to_write(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        HostPattern.parse(text)
    assert caught.value.hint


@given(_names, st.booleans())
def test_a_pattern_reads_back_as_it_is_printed(name: str, is_wildcard: bool) -> None:
    pattern = HostPattern(canonical_host(name), is_wildcard)
    assert HostPattern.parse(str(pattern)) == pattern


_tree = st.lists(st.sampled_from("ab"), min_size=0, max_size=3).map(
    lambda labels: ".".join([*labels, "x", "example"])
)
_patterns = st.builds(HostPattern, _tree, st.booleans())


@given(_patterns, _patterns, _tree)
def test_a_pattern_that_covers_another_matches_all_that_it_matches(
    wide: HostPattern, narrow: HostPattern, host: str
) -> None:
    if wide.covers(narrow) and narrow.matches(host):
        assert wide.matches(host)
    if wide.matches(host) and narrow.matches(host):
        assert wide.overlaps(narrow)
        assert narrow.overlaps(wide)


def test_a_wildcard_neither_covers_nor_is_covered_by_its_own_domain() -> None:
    below, itself = HostPattern.parse("*.x.example"), HostPattern.parse("x.example")
    assert not below.covers(itself)
    assert not itself.covers(below)
    assert not below.overlaps(itself)
