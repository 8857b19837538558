"""Asks the person at the terminal whether a paddock file may have what it asks of the host."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paddock.cli.output import confirm
from paddock.model.printable import printable

if TYPE_CHECKING:
    from paddock.cli.parser import CommandParser
    from paddock.doors.trust import Trust, TrustRequest
    from paddock.policy.decide import Policy

# All of it: what is cut off could be what matters.
_MAX_SHOWN = 1 << 20


def add_trust(parser: CommandParser) -> None:
    parser.add_flag(
        "--trust", "agree, for this time, to what the paddock file asks of this machine"
    )


def trust_from(options: argparse.Namespace) -> Trust:
    """Return how a command decides about a file that nobody agreed to: as it was told, or by
    asking."""
    from paddock.doors.trust import Trust

    is_for_programs = getattr(options, "json", False)
    return Trust(options.trust, None if is_for_programs or not _is_terminal() else ask)


def trusted_policy(file: str | None, options: argparse.Namespace) -> Policy | None:
    """Return the policy of the file that was named. Raises NotTrusted."""
    from paddock.doors.terms import policy_of

    return None if file is None else policy_of(file, trust_from(options))


def ask(path: str, requests: Sequence[TrustRequest]) -> bool:
    """Show what a file asks for, and return what the person says."""

    lines = [f"{printable(path, 4096)} asks for this on your machine:"]
    lines += [f"  - {printable(request.text, _MAX_SHOWN)}" for request in requests]
    print("\n".join(lines), file=sys.stderr)
    question = "do you agree? It is asked again when this changes. [y/N] "
    return confirm(question, is_on_stderr=True)


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
