"""Docstrings of the usual styles."""

from __future__ import annotations

import pytest

from paddock.doors.tools.docstrings import parse

GOOGLE = """Refunds a payment.

    It takes a day.

    Args:
        amount (int): In cents,
            never in euros.
        to: The account: its number.

    Returns:
        The id of it: a text.
    """
NUMPY = """Refunds a payment.

    It takes a day.

    Parameters
    ----------
    amount : int
        In cents,
        never in euros.
    to
        The account: its number.

    Returns
    -------
    str
        The id.
    """
SPHINX = """Refunds a payment.

    It takes a day.

    :param int amount: In cents,
        never in euros.
    :param to: The account: its number.
    :type to: str
    :returns: The id.
    :raises ValueError: Never.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_style_gives_the_same(text: str) -> None:
    found = parse(text)
    assert found.summary == "Refunds a payment.\n\nIt takes a day."
    assert found.parameters == {
        "amount": "In cents, never in euros.",
        "to": "The account: its number.",
    }


def test_several_parameters_of_one_numpy_item_share_its_words() -> None:
    found = parse("Adds.\n\nParameters\n----------\na, b : int\n    A number.\n")
    assert found.parameters == {"a": "A number.", "b": "A number."}


@pytest.mark.parametrize("text", [None, "", "Just words.", "Args: none to speak of"])
def test_text_of_no_style_is_all_summary(text: str | None) -> None:
    assert parse(text).summary == (text or "")
    assert parse(text).parameters == {}
