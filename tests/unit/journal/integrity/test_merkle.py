"""RFC 9162 trees: the published vectors of Certificate Transparency, and proofs of every size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.journal.integrity.merkle import (
    EMPTY_ROOT,
    Leaves,
    MerkleTree,
    check_inclusion,
    leaf_hash,
)

# The reference tree of Certificate Transparency: eight leaves, and the root after each.
INPUTS = [
    bytes.fromhex(text)
    for text in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
ROOTS = [
    bytes.fromhex(text)
    for text in (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    )
]
# (leaf, size of the tree, the published path)
INCLUSIONS = [
    (0, 8, [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]),
    (5, 8, [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]),
]  # fmt: skip


def test_root_of_the_empty_tree_is_the_hash_of_nothing() -> None:
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert MerkleTree().root() == Leaves([]).root() == EMPTY_ROOT


HASHES = [leaf_hash(data) for data in INPUTS]


def test_roots_of_the_reference_tree_are_as_published() -> None:
    tree = MerkleTree()
    for hashed, root in zip(HASHES, ROOTS, strict=True):
        tree.append(hashed)
        assert tree.root() == root
        assert Leaves(HASHES).root(tree.size) == root


@pytest.mark.parametrize(("leaf", "size", "path"), INCLUSIONS)
def test_inclusion_proofs_are_as_published(leaf: int, size: int, path: list[str]) -> None:
    proof = [bytes.fromhex(text) for text in path]
    assert Leaves(HASHES).inclusion(leaf, size) == proof
    assert check_inclusion(HASHES[leaf], leaf, size, proof, ROOTS[size - 1])


def test_every_proof_of_every_small_tree_is_accepted() -> None:
    hashes = [leaf_hash(bytes([n])) for n in range(34)]
    leaves = Leaves(hashes)
    for size in range(1, 35):
        root = leaves.root(size)
        for index in range(size):
            assert check_inclusion(hashes[index], index, size, leaves.inclusion(index, size), root)


@given(st.data(), st.integers(1, 40))
def test_changed_proof_of_inclusion_is_refused(data: st.DataObject, size: int) -> None:
    leaves = Leaves([leaf_hash(bytes([n])) for n in range(size)])
    index = data.draw(st.integers(0, size - 1))
    proof, root = leaves.inclusion(index, size), leaves.root()
    leaf = leaf_hash(bytes([index]))
    other = data.draw(st.integers(0, size + 2).filter(lambda n: n != index))
    assert not check_inclusion(leaf, other, size, proof, root)
    assert not check_inclusion(leaf, index, size, [*proof, root], root)
    assert not check_inclusion(leaf_hash(b"else"), index, size, proof, root)
    for at in range(len(proof)):
        changed = bytes([proof[at][0] ^ 1]) + proof[at][1:]
        assert not check_inclusion(
            leaf, index, size, [*proof[:at], changed, *proof[at + 1 :]], root
        )
        assert not check_inclusion(leaf, index, size, [*proof[:at], *proof[at + 1 :]], root)


def test_nothing_is_proved_about_what_is_no_hash() -> None:
    assert not check_inclusion(b"", 0, 1, [], b"")


def test_leaf_and_node_of_the_same_bytes_have_different_hashes() -> None:
    pair = MerkleTree()
    for hashed in HASHES[:2]:
        pair.append(hashed)
    assert leaf_hash(HASHES[0] + HASHES[1]) != pair.root()


def test_proof_outside_the_tree_is_an_error() -> None:
    leaves = Leaves(HASHES)
    for ask in (
        lambda: leaves.inclusion(8, 8),
        lambda: leaves.inclusion(0, 9),
        lambda: leaves.root(9),
    ):
        with pytest.raises(IndexError):
            ask()
