"""The thread that signs quiet journals: one that fails does not take it away from the others."""

from __future__ import annotations

import threading

from paddock.journal.integrity.head_timer import HeadTimer


class Broken:
    """A journal that cannot be signed."""

    def sign_when_due(self) -> bool:
        raise OSError("no")


class Waiting:
    """A journal that is signed the second time it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.signed = threading.Event()

    def sign_when_due(self) -> bool:
        self.asked += 1
        if self.asked == 2:
            self.signed.set()
        return self.asked < 2


def test_a_journal_that_fails_leaves_the_others_their_signatures() -> None:
    timer, waiting, later = HeadTimer(), Waiting(), Waiting()
    timer.watch(Broken())
    timer.watch(waiting)
    assert waiting.signed.wait(30)
    timer.watch(later)
    assert later.signed.wait(30)
    assert waiting.asked == 2  # and nobody asks it again
