"""The paddock file as text: reads it into a Policy, and writes a Policy as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from paddock.model.action import Kind, Stage, Verdict
from paddock.policy.decide import CONTAINED_KINDS, Policy
from paddock.policy.network import NetworkTerms, SecretTerms
from paddock.policy.problems import PolicyError, Problem
from paddock.policy.reach import NETWORK_KINDS
from paddock.policy.rules import Match, Rule, Terms, as_plain
from paddock.policy.secret_words import check_secrets
from paddock.policy.world import WorldTerms, reach

if TYPE_CHECKING:
    from paddock.policy.analysis.review import Remark
    from paddock.policy.file.document import Document

DEFAULT_NAME = "paddock.yaml"


class Draft(msgspec.Struct, frozen=True):
    """A text that has the shape of a paddock file, and what is wrong with what it says."""

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
    """The policy that the text describes; paths in it start from `base`, and `file` is the absolute
    path that it was read from. `is_recorded` says that a journal has the text. Raises PolicyError
    with everything that is wrong."""
    draft = read_draft(text, name, is_recorded=is_recorded)
    if draft.remarks:
        raise PolicyError(name, [problem_of(draft.document, one) for one in draft.remarks])
    return Policy.of(replace(draft.terms, base=base, file=file))


def read_draft(text: str, name: str = DEFAULT_NAME, *, is_recorded: bool = False) -> Draft:
    """Raises PolicyError when the text does not have the shape of a paddock file."""
    # Deciding needs neither; a program that only decides must not pay for them.
    from pydantic import ValidationError

    from paddock.policy.analysis.review import errors
    from paddock.policy.complaints import complaints
    from paddock.policy.convert import Converter
    from paddock.policy.file.document import read
    from paddock.policy.schema import RECORDED, FileShape

    document = read(text, name)
    if not isinstance(document.value, dict):
        message = "the file is empty" if document.value is None else "the file is not a mapping"
        raise PolicyError(name, [Problem(1, 1, "", message, "begin it with version: 1")])
    try:
        context = RECORDED if is_recorded else None
        shape = FileShape.model_validate(document.value, context=context)
    except ValidationError as error:
        raise PolicyError(name, complaints(document, error)) from None
    converter = Converter(document)
    terms = converter.terms(shape)
    if converter.problems:
        raise PolicyError(name, converter.problems)
    return Draft(document, terms, tuple(errors(terms)))


def dump(policy: Policy) -> str:
    """The policy as a text that `load` reads as the same policy."""
    from paddock.policy.file.writer import emit

    return emit(as_plain(policy.terms))


def default_policy(
    agent: str = "agent",
    network: NetworkTerms | None = None,
    secrets: Mapping[str, SecretTerms] | None = None,
    world: WorldTerms | None = None,
) -> Policy:
    """For a sandbox without a file: what stays inside is allowed, and what the caller's own words
    about the network let out. Raises InvalidInput for a secret that could never be sent."""
    check_secrets(reach(network, world), secrets or {})
    inside = _grant("contained", CONTAINED_KINDS, "What stays inside the fence is allowed.")
    if reach(network, world) is None:
        return Policy.of(Terms(agent=agent, stage=Stage.OBSERVE, rules=(inside,)))
    # The words are the grant: without the rule, what administers would wait for a person.
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
    """The remark at its place in the text."""
    return document.problem(remark.path, remark.message, remark.hint)
