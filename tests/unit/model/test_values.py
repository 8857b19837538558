"""Values made quickly behave as the library's."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, InitVar, field
from typing import Any, ClassVar

import pytest

from paddock.model import values

QUICK = values.dataclass(frozen=True, slots=True)
SLOW = dataclasses.dataclass(frozen=True, slots=True)


def _plain(make: Any) -> Any:
    class Plain:
        """Every kind of field."""

        KIND: ClassVar[str] = "plain"
        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list, hash=False)
        d: int = field(default=4, compare=False)
        e: str = field(default="hidden", repr=False)
        f: int = field(default=6, init=False)
        g: list[int] = field(default_factory=lambda: [7], init=False, hash=False)
        h: int = field(default=8, kw_only=True)

        def doubled(self) -> int:
            return 2 * self.a

    Plain.__qualname__ = "Plain"
    return make(Plain)


def _written(make: Any) -> Any:
    class Written:
        """Has functions of its own."""

        a: int

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("below zero")

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self))

    return make(Written)


def _bare(make: Any) -> Any:
    class Bare:
        """Nothing in it."""

    return make(Bare)


@QUICK
class Pickled:
    """At the top of a module, where pickle finds it."""

    a: int
    b: tuple[str, ...] = ()


@QUICK
class Deeper(Pickled):
    """Inherits."""

    c: int = 3


BOTH = pytest.mark.parametrize("make", [QUICK, SLOW], ids=["quick", "slow"])


@BOTH
def test_fields_hold_what_they_are_given_and_their_defaults(make: Any) -> None:
    made = _plain(make)(1, c=[3], h=9)
    assert (made.a, made.b, made.c, made.d, made.e, made.f, made.g, made.h) == (
        *(1, "b", [3], 4, "hidden", 6, [7], 9),
    )
    assert made.doubled() == 2
    assert made.KIND == "plain"


@BOTH
def test_each_object_has_a_default_of_its_own(make: Any) -> None:
    plain = _plain(make)
    assert plain(1).c is not plain(1).c
    assert plain(1).g is not plain(1).g


@BOTH
@pytest.mark.parametrize(
    "words", [((), {}), ((1, "b", [], 4, "e", 6), {}), ((1,), {"f": 6}), ((1,), {"other": 1})]
)
def test_wrong_arguments_are_refused(make: Any, words: Any) -> None:
    with pytest.raises(TypeError):
        _plain(make)(*words[0], **words[1])


@BOTH
def test_nothing_can_be_assigned_deleted_or_added(make: Any) -> None:
    made = _plain(make)(1)
    with pytest.raises(FrozenInstanceError):
        made.a = 2
    with pytest.raises(FrozenInstanceError):
        del made.a
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        made.other = 2
    assert not hasattr(made, "__dict__")


@BOTH
def test_equality_and_hash_go_by_the_fields_that_count(make: Any) -> None:
    plain = _plain(make)
    assert plain(1, d=5) == plain(1, d=6)
    assert plain(1) != plain(2)
    assert plain(1, c=[1]) != plain(1)
    assert hash(plain(1, c=[1])) == hash(plain(1))
    assert plain(1) != (1, "b", [], "hidden", 6, [7], 8)


def test_two_classes_of_the_same_fields_are_never_equal() -> None:
    assert _plain(QUICK)(1) != _plain(QUICK)(1)


def test_both_ways_give_the_same_text_hash_and_signature() -> None:
    quick, slow = _plain(QUICK), _plain(SLOW)
    assert repr(quick(1)) == repr(slow(1))
    assert hash(quick(1)) == hash(slow(1))
    assert str(inspect.signature(quick)) == str(inspect.signature(slow))
    assert quick.__match_args__ == slow.__match_args__
    assert dataclasses.asdict(quick(1)) == dataclasses.asdict(slow(1))
    assert dataclasses.astuple(quick(1)) == dataclasses.astuple(slow(1))


def test_an_object_that_holds_itself_has_a_text() -> None:
    held: list[Any] = []
    made = _plain(QUICK)(1, c=held)
    held.append(made)
    assert "..." in repr(made)


@BOTH
def test_what_its_author_wrote_stays(make: Any) -> None:
    written = _written(make)
    assert repr(written(1)) == "mine"
    assert written(1) == written(2)
    assert hash(written(1)) == hash((1,))
    with pytest.raises(ValueError, match="below zero"):
        written(-1)


@BOTH
def test_a_class_without_fields_has_equal_objects(make: Any) -> None:
    bare = _bare(make)
    assert bare() == bare()
    assert hash(bare()) == hash(())


def test_replace_makes_another_and_leaves_the_first() -> None:
    first = Pickled(1, ("x",))
    assert dataclasses.replace(first, a=2) == Pickled(2, ("x",))
    assert first.a == 1


@pytest.mark.parametrize("made", [Pickled(1, ("x",)), Deeper(1, ("x",), 4)])
def test_copies_and_pickles_come_back_equal(made: Pickled) -> None:
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made
    assert copy.copy(made) == made


def test_a_subclass_has_the_fields_of_its_base_first() -> None:
    assert Deeper(1, ("x",)) == Deeper(1, ("x",), 3)
    assert repr(Deeper(1)) == "Deeper(a=1, b=(), c=3)"
    assert isinstance(Deeper(1), Pickled)


def test_the_library_can_inherit_from_a_quick_one() -> None:
    @dataclasses.dataclass(frozen=True)
    class Child(Pickled):
        d: int = 5

    assert Child(1).d == 5


def test_a_frozen_class_cannot_inherit_from_one_that_is_not() -> None:
    @dataclasses.dataclass(slots=True)
    class Open:
        a: int

    with pytest.raises(TypeError, match="frozen"):

        @QUICK
        class Child(Open):
            b: int


def test_what_is_not_done_here_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match="InitVar"):

        @QUICK
        class Given:
            a: InitVar[int]

    with pytest.raises(TypeError, match="frozen"):

        @QUICK
        class Loose:
            a: int

            def __setattr__(self, name: str, value: Any) -> None: ...


def test_other_kinds_are_left_to_the_library() -> None:
    @values.dataclass(slots=True)
    class Loose:
        a: int

    @values.dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        a: int

    loose = Loose(1)
    loose.a = 2
    assert loose.a == 2
    assert Ordered(1) < Ordered(2)


def _ordered(make: Any) -> Any:
    class Ordered:
        """Compared by its fields in order."""

        a: int
        b: str = ""
        c: int = field(default=0, compare=False)

    return make(Ordered)


IN_ORDER = {"frozen": True, "slots": True, "order": True}


@pytest.mark.parametrize("made_by", [values.dataclass, dataclasses.dataclass])
def test_ordered_ones_compare_by_the_fields_that_count(made_by: Any) -> None:
    ordered = _ordered(made_by(**IN_ORDER))
    assert ordered(1, "x") < ordered(1, "y") < ordered(2)
    assert ordered(1, c=1) <= ordered(1, c=0)
    assert ordered(2) > ordered(1, "y") >= ordered(1, "y", 5)
    with pytest.raises(TypeError):
        ordered(1) < _ordered(made_by(**IN_ORDER))(2)  # noqa: B015


@pytest.mark.parametrize("made_by", [values.dataclass, dataclasses.dataclass])
def test_open_ones_can_be_written_to_and_have_no_hash(made_by: Any) -> None:
    made = _plain(made_by(slots=True))(1, h=2)
    made.a = 5
    assert made == _plain_like(made)
    assert not hasattr(made, "__dict__")
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)
    with pytest.raises(AttributeError):
        made.other = 1


def _plain_like(made: Any) -> Any:
    return dataclasses.replace(made, a=made.a)


@pytest.mark.parametrize("words", [{"frozen": True}, {}, {"frozen": True, "order": True}])
def test_library_says_the_same_of_both(words: dict[str, bool]) -> None:
    quick = _plain(values.dataclass(slots=True, **words))
    slow = _plain(dataclasses.dataclass(slots=True, **words))
    assert repr(quick.__dataclass_params__) == repr(
        dataclasses.dataclass(**words)(type("X", (), {})).__dataclass_params__
    )
    said = ("name", "type", "default", "init", "repr", "hash", "compare", "kw_only", "metadata")
    for one, other in zip(dataclasses.fields(quick), dataclasses.fields(slow), strict=True):
        assert [getattr(one, name) for name in said] == [getattr(other, name) for name in said]
    assert quick.__slots__ == slow.__slots__


@pytest.mark.parametrize("made_by", [values.dataclass, dataclasses.dataclass])
def test_mistakes_in_a_class_are_told_when_it_is_made(made_by: Any) -> None:
    with pytest.raises(TypeError, match="default"):

        @made_by(frozen=True, slots=True)
        class Behind:
            a: int = 1
            b: int

    with pytest.raises(ValueError, match="default"):

        @made_by(frozen=True, slots=True)
        class Shared:
            a: list[int] = []  # noqa: RUF012


def test_signature_is_that_of_the_class_before_and_after_the_first_object() -> None:
    quick, slow = _plain(QUICK), _plain(SLOW)
    before = str(inspect.signature(quick))
    quick(1)
    assert before == str(inspect.signature(quick)) == str(inspect.signature(slow))
    assert list(inspect.signature(Deeper).parameters) == ["a", "b", "c"]
