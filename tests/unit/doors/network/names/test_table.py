"""The table of names: one address for one name, and never the wrong name for an address."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from paddock.doors.network.names.table import (
    MAX_NAMES,
    NAME_SERVER_ADDRESS,
    PROXY_ADDRESS,
    STAND_INS,
    NameTable,
    TableFull,
)

DOORS_OWN = IPv4Network("198.18.0.0/24")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_name_keeps_its_address() -> None:
    table = NameTable()
    first = table.address_of("api.example.com")
    table.address_of("other.example.com")
    assert table.address_of("api.example.com") == first
    assert table.name_of(first) == "api.example.com"


def test_two_sandboxes_do_not_share_what_an_address_means() -> None:
    one, other = NameTable(), NameTable()
    address = one.address_of("api.example.com")
    assert other.name_of(address) is None


def test_the_doors_own_addresses_stand_for_no_name() -> None:
    table = NameTable()
    given = {IPv4Address(table.address_of(f"n{number}.example")) for number in range(1000)}
    assert len(given) == 1000
    assert all(one in STAND_INS and one not in DOORS_OWN for one in given)
    assert not {int(one) & 255 for one in given} & {0, 255}
    assert table.name_of(PROXY_ADDRESS) is None
    assert table.name_of(NAME_SERVER_ADDRESS) is None


@pytest.mark.parametrize("address", ["", "198.18.1.01", "::ffff:198.18.1.1", "1.1.1.1", "\0"])
def test_an_address_that_was_not_given_has_no_name(address: str) -> None:
    table = NameTable()
    assert table.address_of("api.example.com") == "198.18.1.1"
    assert table.name_of(address) is None


def test_the_least_recently_used_name_goes_first() -> None:
    table = NameTable(max_names=3)
    old, kept = table.address_of("old.example"), table.address_of("kept.example")
    table.address_of("third.example")
    table.name_of(kept)  # a connection counts as a use, as a question does
    table.address_of("third.example")
    table.address_of("fourth.example")
    assert table.name_of(old) is None
    assert table.name_of(kept) == "kept.example"


def test_a_name_with_an_open_connection_is_not_forgotten() -> None:
    table = NameTable(max_names=2)
    address = table.address_of("busy.example")
    table.hold("busy.example")
    table.hold("busy.example")
    table.release("busy.example")
    for number in range(50):
        table.address_of(f"n{number}.example")
    assert table.name_of(address) == "busy.example"
    table.release("busy.example")
    table.address_of("x.example")
    table.address_of("y.example")
    assert table.name_of(address) is None


def test_when_all_names_are_held_a_new_one_is_refused_and_none_is_lost() -> None:
    table = NameTable(max_names=2)
    given = {name: table.address_of(name) for name in ("a.example", "b.example")}
    for name in given:
        table.hold(name)
    with pytest.raises(TableFull):
        table.address_of("c.example")
    assert {table.name_of(address) for address in given.values()} == set(given)


def test_a_freed_address_goes_to_nobody_within_its_grace() -> None:
    clock = Clock()
    table = NameTable(max_names=1, grace_s=300, clock=clock)
    freed = table.address_of("a.example")
    for number in range(100):
        clock.now += 2.9
        assert table.address_of(f"n{number}.example") != freed
        assert table.name_of(freed) is None
    clock.now += 300
    assert table.address_of("late.example") == freed


def test_when_every_address_is_in_its_grace_a_new_name_is_refused_and_none_is_lost() -> None:
    clock = Clock()
    table = NameTable(max_names=10, grace_s=300, clock=clock)
    with pytest.raises(TableFull):
        for number in range(STAND_INS.num_addresses):
            last = f"n{number}.example"
            table.address_of(last)
    assert len(table) == 10
    clock.now += 300
    assert table.name_of(table.address_of("new.example")) == "new.example"


def test_the_table_does_not_grow_beyond_its_bound() -> None:
    table = NameTable()
    for number in range(MAX_NAMES + 100):
        table.address_of(f"n{number}.example")
    assert len(table) == MAX_NAMES


def test_a_name_that_is_not_in_the_table_cannot_be_held() -> None:
    with pytest.raises(KeyError):
        NameTable().hold("never.example")


NAMES = st.sampled_from([f"{letter}.example" for letter in "abcdefgh"])


class TableLaws(RuleBasedStateMachine):
    """Whatever happens in whatever order, an address means what it meant, or nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.table = NameTable(max_names=4, grace_s=10, clock=self.clock)
        self.held: list[str] = []
        self.meant: dict[str, tuple[str, float]] = {}  # address: the last name, and when it was so

    @rule(name=NAMES)
    def ask(self, name: str) -> None:
        try:
            address = self.table.address_of(name)
        except TableFull:
            assert len(set(self.held)) == 4
            return
        before, when = self.meant.get(address, (name, 0.0))
        assert before == name or self.clock.now - when >= 10
        self.note()

    @rule(name=NAMES)
    def hold(self, name: str) -> None:
        try:
            self.table.hold(name)
        except KeyError:
            return
        self.held.append(name)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.held))
        self.held.remove(name)
        self.table.release(name)

    @rule(seconds=st.floats(0, 15))
    def wait(self, seconds: float) -> None:
        self.note()
        self.clock.now += seconds
        self.note()

    def note(self) -> None:
        for address in list(self.meant):
            name = self.table.name_of(address)
            if name is not None:
                self.meant[address] = (name, self.clock.now)
        for name in [f"{letter}.example" for letter in "abcdefgh"]:
            if name in self.table._addresses:
                self.meant[self.table._addresses[name]] = (name, self.clock.now)

    @invariant()
    def both_ways_agree_and_are_bounded(self) -> None:
        pairs = dict(self.table._addresses)
        assert len(pairs) == len(set(pairs.values())) <= 4
        assert {address: name for name, address in pairs.items()} == self.table._names
        assert set(self.held) <= set(pairs)


TestTableLaws = TableLaws.TestCase
TestTableLaws.settings = settings(stateful_step_count=40)
