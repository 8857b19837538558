"""How faults are written: what reads, what is refused and where, and what a set brings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cases import for_each
from paddock.model.action import Kind
from paddock.policy.decide import Policy
from paddock.policy.fault_sets import FAULT_SETS
from paddock.policy.faults import FAULT_ENTRY, FAULT_KEYS, FITS, FaultTerms, Strikes
from paddock.policy.file import dump, load
from paddock.policy.problems import PolicyError

HEAD = "version: 1\nagent: a\nstage: broad\ntools: {pay: {effect: write}}\n"
ENTRY = "faults:\n  - {id: x, match: {kind: %s}, fault: %s}\n"


def policy_of(text: str) -> Policy:
    return load(HEAD + text)


def faults_of(text: str) -> tuple[FaultTerms, ...]:
    return policy_of(text).terms.faults


def words_of(kind: str, words: str) -> dict[str, object]:
    return dict(faults_of(ENTRY % (kind, words))[0].options)


def problems(text: str) -> list[tuple[int, str, str]]:
    """Line, path and message of each."""
    with pytest.raises(PolicyError) as caught:
        policy_of(text)
    return [(one.line, one.path, one.message) for one in caught.value.problems]


def complaint(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        policy_of(text)
    return caught.value.message


def test_a_fault_says_where_what_and_when() -> None:
    [fault] = faults_of(
        "faults:\n  - {id: flaky-payments, match: {kind: http, host: api.stripe.com},"
        " fault: {status: 429, retry_after: 2}, rate: 0.3, seed: 7}\n"
    )
    assert (fault.id, fault.kinds) == ("flaky-payments", (Kind.HTTP,))
    assert fault.match.get("host") == ("api.stripe.com",)
    assert fault.options == {"status": 429, "retry_after": 2.0}
    assert fault.strikes == Strikes(rate=0.3, seed=7)


@for_each(
    ("kind", "words", "read"),
    [
        ("http", "{delay: 30s}", {"delay": 30.0}),
        ("connect", "{timeout: 250ms}", {"timeout": 0.25}),
        ("http", "{truncate: 0.5}", {"truncate": 0.5}),
        ("http", "{truncate: 2kB}", {"truncate": 2000}),
        ("http", "{truncate: 0}", {"truncate": 0}),
        ("model", "{drip: 100B/s}", {"drip": 100}),
        ("http", "{after: 504, retry_after: 1}", {"after": 504, "retry_after": 1.0}),
        ("http", "{status: 429, retry_after: 0}", {"status": 429, "retry_after": 0.0}),
        ("http", "{status: 429, retry_after: 0.0}", {"status": 429, "retry_after": 0.0}),
        ("tool", "{after: timeout, timeout: 5s}", {"after": "timeout", "timeout": 5.0}),
        ("tool", "{status: 404, error: gone}", {"status": 404, "error": "gone"}),
        ("exec", "{kill: true}", {"kill": True}),
        ("exec", "{kill: 2s}", {"kill": 2.0}),
        ("dns", "{nxdomain: true}", {"nxdomain": True}),
        ("http", "{status: 503, body: {a: [1]}}", {"status": 503, "body": {"a": [1]}}),
        ("http", "{duplicate: true, after: reset}", {"duplicate": True, "after": "reset"}),
    ],
)
def test_words_are_read_as_plain_numbers(kind: str, words: str, read: dict[str, object]) -> None:
    assert words_of(kind, words) == read


def test_what_is_read_can_be_written_and_read_again() -> None:
    policy = policy_of(
        "faults:\n  - hostile\n"
        "  - {id: x, match: {kind: http}, unless: {host: a.example},"
        " when: \"action.effect == 'write'\", fault: {delay: 1500ms, truncate: 0.25},"
        " after: 2, first: 3, every: 2, times: 1, steps: [9, 4]}\n"
    )
    again = load(dump(policy))
    assert again == policy
    assert again.digest == policy.digest
    assert policy.terms.faults[-1].strikes == Strikes(
        times=1, after=2, first=3, every=2, steps=(4, 9)
    )


def test_faults_are_part_of_what_approvals_bind_to() -> None:
    assert policy_of("").digest != policy_of("faults: flaky\n").digest


@for_each(
    ("kind", "words", "message"),
    [
        ("dns", "{truncate: 0.5}", "truncate does not fit an action of kind dns"),
        ("exec", "{status: 500}", "status does not fit an action of kind exec"),
        ("http", "{kill: true}", "kill does not fit an action of kind http"),
        ("http", "{disk_full: true}", "disk_full does not fit an action of kind http"),
        ("http", "{headers: {A: b}}", "headers needs a status to go with"),
        ("http", "{reset: true, status: 500}", "cannot both happen"),
        ("http", "{status: 500, truncate: 3}", "there is no effect and no answer to go wrong"),
        ("http", "{after: reset, malformed: true}", "after leaves no answer for malformed"),
        ("http", "{stale: true, drip: 10B/s}", "stale leaves no answer for drip"),
        ("http", "{stale: true, duplicate: true}", "has no effect that could happen twice"),
        ("http", "{}", "says nothing that goes wrong"),
        ("http", "{reset: false}", "is not true"),
        ("http", "{truncate: 1.5}", "is not a share between 0 and 1"),
        ("http", "{drip: 100B}", "is not a speed"),
        ("http", "{delay: 2h}", "is not between 1ms and 1h"),
        ("http", "{delay: }", "is not a duration"),
        ("http", "{delay: 5}", "write 5s, 5m or 5h"),
        ("http", "{latency: 5s}", "did you mean delay?"),
        ("http", "{status: 200}", "a fault has a status from 400 to 599"),
        ("http", "{status: '503'}", "write 503, without quotes"),
        ("http", "{after: resset}", "did you mean reset?"),
        ("http", "{after: 200}", "a status is from 400 to 599"),
        ("http", "{status: 503, headers: {Content-Length: '3'}}", "says where an answer ends"),
        ("http", '{status: 503, headers: {X-A: "a\\r\\nSet-Cookie: b"}}', "not a line of text"),
        ("http", "{status: 503, headers: {X A: b}}", "is not the name of a header"),
        ("http", "{wrong_type: html}", "is not a content type"),
        ("http", "{staus: 503}", "did you mean status?"),
    ],
)
def test_words_that_make_no_sense_are_refused(kind: str, words: str, message: str) -> None:
    assert message in complaint(ENTRY % (kind, words))


def test_a_misfit_is_told_at_its_line_with_what_would_fit() -> None:
    text = (
        "faults:\n  - flaky\n  - id: x\n    match: {kind: dns}\n    fault:\n      truncate: 0.5\n"
    )
    [(line, path, _)] = problems(text)
    assert (line, path) == (10, "faults[1].fault.truncate")
    assert "for dns there are delay, timeout, nxdomain, servfail" in complaint(text)


@for_each(
    ("text", "path", "message"),
    [
        ("faults: strom\n", "faults", "did you mean storm?"),
        ("faults: \n", "faults", "is not a set of faults"),
        ("faults: 3\n", "faults", "is not a set of faults"),
        ("faults: [3]\n", "faults[0]", "is not a set of faults"),
        ("faults: [{set: flakey}]\n", "faults[0].set", "did you mean flaky?"),
        ("faults: [{set: flaky, rate: 0.5}]\n", "faults[0].rate", "a set brings its own rate"),
        ("faults: [{set: flaky, match: {kind: file}}]\n", "faults[0].match", "has nothing for"),
        ("faults: [{id: x}]\n", "faults[0].match", "this key is missing"),
        ("faults: [{match: {kind: http}, fault: {reset: true}}]\n", "faults[0].id", "missing"),
        ("faults: [{id: x, match: {host: a}, fault: {reset: true}}]\n",
         "faults[0].match.kind", "missing"),
        ("faults: [{id: x, match: {kind: dns, host: a}, fault: {nxdomain: true}}]\n",
         "faults[0].match.host", "an action of kind dns has no host"),
        ("faults: [{id: x, match: {kind: tool, name: pya}, fault: {reset: true}}]\n",
         "faults[0].match.name", "did you mean pay?"),
        ("faults: [{id: x, match: {kind: http}, fault: {reset: true}, when: 'a +'}]\n",
         "faults[0].when", "ends too early"),
        ("faults: [{id: x, match: {kind: http}, fault: {reset: true}, rate: 0}]\n",
         "faults[0].rate", "write a number above 0"),
        ("faults: [{id: x, match: {kind: http}, fault: {reset: true}, step: 1, steps: [2]}]\n",
         "faults[0].step", "write one of them"),
        ("faults: [{id: x, match: {kind: http}, fault: {reset: true}, tims: 2}]\n",
         "faults[0].tims", "did you mean times?"),
        ("faults: [flaky, flaky]\n", "faults[1]", "is used twice"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_key(text: str, path: str, message: str) -> None:
    said = complaint(text)
    assert f" {path}: " in said
    assert message in said


@pytest.mark.parametrize("name", FAULT_SETS)
def test_a_set_reads_by_its_name_and_all_its_words_fit(name: str) -> None:
    found = faults_of(f"faults: {name}\n")
    assert len(found) == len(FAULT_SETS[name])
    assert all(one.id.startswith(f"{name}.") and 0 < one.strikes.rate < 1 for one in found)
    for one in found:
        assert all(kind in FITS[word] for word in one.options for kind in one.kinds)
        spelled = ENTRY % (f"[{', '.join(one.kinds)}]", dict(one.options))
        assert dict(faults_of(spelled.replace("True", "true"))[0].options) == one.options


def test_a_set_is_narrowed_to_what_matches() -> None:
    found = faults_of("faults:\n  - {set: hostile, seed: 3, match: {host: api.stripe.com}}\n")
    assert {kind for one in found for kind in one.kinds} == {Kind.HTTP}
    assert all(one.match.get("host") == ("api.stripe.com",) for one in found)
    assert all(one.strikes.seed == 3 for one in found)
    lost = next(one for one in found if one.id == "hostile.lost-answer")
    assert lost.match.get("effect") == ("write", "admin")


def test_a_set_narrowed_to_reads_has_none_of_its_faults_for_writes() -> None:
    found = faults_of("faults:\n  - {set: hostile, match: {kind: http, effect: read}}\n")
    assert "hostile.stale" in [one.id for one in found]
    assert "hostile.lost-answer" not in [one.id for one in found]


def test_one_set_can_be_there_twice_under_other_names() -> None:
    found = faults_of(
        "faults:\n  - {set: flaky, id: crm, match: {host: crm.example}}\n"
        "  - {set: flaky, match: {host: pay.example}}\n"
    )
    assert {one.id.partition(".")[0] for one in found} == {"crm", "flaky"}


def test_every_word_says_which_kinds_it_fits() -> None:
    assert FITS.keys() == FAULT_KEYS.keys()


@for_each(
    ("strikes", "struck"),
    [
        (Strikes(), [1, 2, 3, 4, 5, 6]),
        (Strikes(first=2), [1, 2]),
        (Strikes(after=2), [3, 4, 5, 6]),
        (Strikes(after=1, first=2), [2, 3]),
        (Strikes(every=3), [3, 6]),
        (Strikes(every=2, after=1), [3, 5]),
        (Strikes(times=2, every=2), [2, 4]),
        (Strikes(steps=(12, 15)), [2, 5]),
    ],
)
def test_all_that_is_said_of_when_must_hold(strikes: Strikes, struck: list[int]) -> None:
    found: list[int] = []
    for match in range(1, 7):
        if strikes.could(match, len(found), 10 + match):
            found.append(match)
    assert found == struck


DOCS = (Path(__file__).resolve().parents[3] / "docs" / "faults.md").read_text()


@for_each("word", FITS)
def test_every_word_and_the_kinds_that_it_fits_are_documented(word: str) -> None:
    row = next(line for line in DOCS.splitlines() if line.startswith(f"| `{word}:"))
    kinds = row.split("|")[-2].strip()
    fits = tuple(Kind) if kinds == "all" else tuple(map(Kind, kinds.split(", ")))
    assert sorted(fits) == sorted(FITS[word])


@for_each("key", sorted(FAULT_ENTRY.keys))
def test_every_key_of_a_fault_is_documented(key: str) -> None:
    assert re.search(rf"`{key}`|\b{key}:", DOCS)


def test_the_example_of_the_docs_loads() -> None:
    shown = re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL)[0]
    assert [one.id for one in faults_of(shown)][:3] == ["flaky-payments", "slow-crm",
                                                        "double-charge"]  # fmt: skip
