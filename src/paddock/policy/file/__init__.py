"""The paddock file as text: `load` reads it into a Policy, `dump` writes a Policy as text.

`document` reads YAML into plain values, each with its line and column. The definition of the file
(`policy.terms.FILE`) makes Terms of them and collects mistakes, `analysis.review` looks for rules
that cannot work, and `Policy.of` compiles the rest. `writer` writes the values as YAML again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from paddock.model.action import Kind, Stage, Verdict
from paddock.policy.decide import CONTAINED_KINDS, Policy
from paddock.policy.network import NetworkTerms
from paddock.policy.problems import PolicyError, Problem
from paddock.policy.reach import NETWORK_KINDS
from paddock.policy.rules import Match, Rule
from paddock.policy.secrets import SecretTerms, check_secrets
from paddock.policy.section import Cursor, Mistake, Section
from paddock.policy.terms import FILE, Terms, as_plain
from paddock.policy.world import WorldTerms, reach

if TYPE_CHECKING:
    from paddock.policy.analysis.review import Remark
    from paddock.policy.file.document import Document

DEFAULT_NAME = "paddock.yaml"


class FileDraft(msgspec.Struct, frozen=True):
    """A text that has the values of a paddock file, and what is wrong with their meaning."""

    document: Document
    terms: Terms
    remarks: tuple[Remark, ...]


def load(
    text: str,
    name: str = DEFAULT_NAME,
    base: str | None = None,
    file: str | None = None,
    *,
    is_recorded: bool = False,
) -> Policy:
    """Return the policy that the text describes. Paths in it start from `base`; `file` is the
    absolute path that it was read from. `is_recorded` says that a journal has the text. Raises
    PolicyError with everything that is wrong."""
    draft = read_draft(text, name, is_recorded=is_recorded)
    if draft.remarks:
        raise PolicyError(name, [problem_of(draft.document, remark) for remark in draft.remarks])
    return Policy.of(replace(draft.terms, base=base, file=file))


def read_draft(text: str, name: str = DEFAULT_NAME, *, is_recorded: bool = False) -> FileDraft:
    """Return the values of a paddock file, with what is wrong with their meaning. Raises
    PolicyError for a text that has no such values."""
    # Deciding needs neither; a program that only decides must not pay for them.
    from paddock.policy.analysis.review import errors
    from paddock.policy.file.document import read

    document = read(text, name)
    terms = read_values(document, FILE, is_recorded=is_recorded)
    return FileDraft(document, terms, tuple(errors(terms)))


def read_values(document: Document, form: Section, *, is_recorded: bool = False) -> Any:
    """Return what a document means by the definition of a file. Raises PolicyError with every
    mistake and its place in the text."""
    if not isinstance(document.value, Mapping):
        message = "the file is empty" if document.value is None else "the file is not a mapping"
        problem = Problem(1, 1, "", message, "begin it with version: 1")
        raise PolicyError(document.name, [problem])
    cursor = Cursor(root=form, is_recorded=is_recorded)
    values = form.read(document.value, cursor)
    raise_located(document, cursor.mistakes)
    return values


def raise_located(document: Document, mistakes: Iterable[Mistake]) -> None:
    """Raise PolicyError for mistakes, if there are any, each with its place in the text."""
    problems = [
        document.problem(mistake.path, mistake.message, mistake.hint, of_key=mistake.of_key)
        for mistake in mistakes
    ]
    if problems:
        raise PolicyError(document.name, problems)


def dump(policy: Policy) -> str:
    """Return the policy as a text that `load` reads as the same policy."""
    from paddock.policy.file.writer import emit

    return emit(as_plain(policy.terms))


def default_policy(
    agent: str = "agent",
    network: NetworkTerms | None = None,
    secrets: Mapping[str, SecretTerms] | None = None,
    world: WorldTerms | None = None,
) -> Policy:
    """Return the policy of a sandbox without a file: it allows what stays inside, and what the
    caller's own description of the network lets out. Raises InvalidInput for a secret that could
    never be sent."""
    check_secrets(reach(network, world), secrets or {})
    inside = _grant("contained", CONTAINED_KINDS, "What stays inside the fence is allowed.")
    if reach(network, world) is None:
        return Policy.of(Terms(agent=agent, stage=Stage.OBSERVE, rules=(inside,)))
    # The description is the grant: without the rule, admin actions would wait for a person.
    outside = _grant("network-words", NETWORK_KINDS, "Whoever made the sandbox allowed it.")
    return Policy.of(
        Terms(
            agent,
            Stage.BROAD,
            rules=(inside, outside),
            network=network,
            secrets=secrets or {},
            world=world,
        )
    )


def _grant(rule_id: str, kinds: frozenset[Kind], why: str) -> Rule:
    ordered = tuple(kind for kind in Kind if kind in kinds)
    return Rule(id=rule_id, kinds=ordered, decide=Verdict.ALLOW, match=Match(), why=why)


def problem_of(document: Document, remark: Remark) -> Problem:
    """Return the remark with its place in the text."""
    return document.problem(remark.path, remark.message, remark.hint)
