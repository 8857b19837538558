"""The tree over the counts of the steps' records has the root of RFC 9162, however it grew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.journal.integrity.merkle import Leaves, leaf_hash
from paddock.journal.integrity.step_counts import StepCounts, is_count_of_step


@given(st.lists(st.one_of(st.integers(0, 40), st.none()), max_size=200))
def test_root_and_paths_are_those_of_the_whole_tree(records: list[int | None]) -> None:
    """None stands for a head: the root is asked for, and the tree goes on from there."""
    counts, expected = StepCounts(), dict[int, int]()
    for step in records:
        if step is None:
            counts.root()
        else:
            counts.add(step)
            expected[step] = expected.get(step, 0) + 1
    leaves = [leaf_hash(b'{"count":%d,"step":%d}' % (n, step)) for step, n in expected.items()]
    assert counts.root() == Leaves(leaves).root()
    for step, count in expected.items():
        position, path = counts.inclusion(step)
        size, root = counts.size, counts.root()
        assert counts.count(step) == count
        assert is_count_of_step(step, count, position, path, size=size, root=root)
        assert not is_count_of_step(step, count - 1, position, path, size=size, root=root)
