"""Records spelled out at once say what their bodies say, byte for byte."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from paddock.journal.bodies import decided_body, proposed_body, settled_body
from paddock.journal.canonical import canonical_text
from paddock.journal.mask import Masker
from paddock.journal.reader import Reader
from paddock.journal.records import Type
from paddock.journal.texts import Canonical, decided_text, proposed_text, settled_text
from paddock.journal.writer import Entry
from paddock.model.action import Action, Decision, Effect, Kind, Outcome, Receipt, RuleHit, Verdict
from unit.journal.conftest import Opener

TEXTS = st.text(alphabet=st.characters(), max_size=8)  # halves of surrogate pairs too
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(max_size=4),
    lambda below: (
        st.lists(below, max_size=3)
        | st.tuples(below, below)
        | st.dictionaries(TEXTS | st.integers(), below, max_size=3)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)
HITS = st.lists(st.builds(RuleHit, TEXTS, st.sampled_from(Verdict), TEXTS), max_size=2).map(tuple)


@given(
    st.builds(
        Action,
        st.sampled_from(Kind),
        TEXTS,
        OBJECTS,
        st.sampled_from(Effect),
        st.booleans(),
        st.booleans(),
        st.none() | st.integers(0, 1 << 53),
        st.none(),
        OBJECTS,
    )
)
def test_proposed_text_is_its_body(action: Action) -> None:
    assert proposed_text(action) == canonical_text(proposed_body(action))


@given(
    st.builds(
        Decision,
        st.sampled_from(Verdict),
        TEXTS,
        TEXTS,
        st.sampled_from(Effect),
        HITS,
        st.booleans(),
        st.none() | OBJECTS,
        st.sampled_from(Verdict),
    )
)
def test_decided_text_is_its_body(decision: Decision) -> None:
    assert decided_text(decision) == canonical_text(decided_body(decision))


@given(
    st.builds(
        Receipt,
        st.sampled_from(Outcome),
        st.integers(0, 9),
        VALUES,
        st.none() | TEXTS,
        st.none(),
        st.none() | TEXTS,
        st.none() | TEXTS,
        OBJECTS,
    ),
    VALUES,
)
def test_settled_text_is_its_body(receipt: Receipt, result: Any) -> None:
    assert settled_text(receipt, result) == canonical_text(settled_body(receipt, result))


def test_values_nested_too_deep_are_cut_alike() -> None:
    deep: Any = "end"
    for _ in range(200):
        deep = {"in": deep}
    action = Action(Kind.TOOL, "t", {"deep": deep})
    assert proposed_text(action) == canonical_text(proposed_body(action))


def test_secrets_are_masked_in_a_body_that_is_text(opener: Opener) -> None:
    journal = opener(masker=Masker({"KEY": "sk_live_123456"}))
    journal.extend([Entry(Type.NOTED, Canonical('{"said":"it is sk_live_123456"}'))])
    last = list(Reader(journal.directory).records())[-1]
    assert last.body == {"said": "it is {{secret:KEY}}"}


def test_a_large_value_of_a_body_that_is_text_is_set_aside(opener: Opener) -> None:
    journal, large = opener(), "x" * 100_000
    journal.extend([Entry(Type.NOTED, Canonical(f'{{"said":"{large}"}}'))])
    last = list(Reader(journal.directory).records())[-1]
    assert [blob.size_bytes for blob in last.blobs] == [len(large)]
