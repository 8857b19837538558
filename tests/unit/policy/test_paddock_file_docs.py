"""That the reference of the paddock file names every key, field, code and bound there is."""

from __future__ import annotations

import re
from pathlib import Path

from cases import for_each
from paddock.model.action import Kind, Stage, Verdict
from paddock.policy.analysis.lint import check
from paddock.policy.analysis.review import CODES, Level
from paddock.policy.fields import FIELDS, OPERATIONS
from paddock.policy.file import load
from paddock.policy.section import all_sections
from paddock.policy.subject import HTTP_NAMES, NAMES
from paddock.policy.terms import FILE
from unit.policy.cases import SUPPORT_BOT

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXT = (DOCS / "paddock-file.md").read_text() + (DOCS / "faults.md").read_text()
CODE = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", TEXT, re.DOTALL))
KEYS = sorted({key for section in all_sections(FILE) for key in section.keys})
WORDS = sorted({*Kind, *Stage, *Verdict, *OPERATIONS, *CODES, *NAMES, *HTTP_NAMES})


@for_each("key", KEYS)
def test_every_key_of_the_schema_is_documented(key: str) -> None:
    assert re.search(rf"`{key}`|\b{key}:", CODE), f"docs/paddock-file.md does not name `{key}`"


@for_each("word", WORDS)
def test_every_word_of_a_file_is_documented(word: str) -> None:
    assert f"`{word}`" in TEXT


@for_each("kind", list(Kind))
def test_every_field_of_a_kind_is_in_its_part_of_the_table(kind: Kind) -> None:
    table = TEXT[TEXT.index("| kind | field |") :]
    part = re.search(rf"^\| `{kind}` \|.*?(?=^\| `|^$)", table, re.MULTILINE | re.DOTALL)
    assert part is not None
    assert all(f"| `{name}` |" in part[0] for name in FIELDS[kind])


def test_the_example_of_the_reference_is_the_one_that_is_tested() -> None:
    first = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)[0]
    assert first == SUPPORT_BOT
    assert all(one.level is not Level.ERROR for one in check(first))


def test_the_rule_that_allows_only_some_programs_loads() -> None:
    shown = next(one for one in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
                 if "only-these-programs" in one)  # fmt: skip
    policy = load(f"version: 1\nagent: a\nstage: broad\nrules:\n{shown}")
    assert [rule.id for rule in policy.rules] == ["only-these-programs"]


def test_the_network_and_the_secrets_of_the_reference_load_together() -> None:
    shown = re.findall(r"```yaml\n((?:network|secrets):.*?)```", TEXT, re.DOTALL)
    allow = "allow: [index.example:443, pinned.example:443, "
    text = "".join(shown).replace("allow: [", allow)
    policy = load(f"version: 1\nagent: a\nstage: broad\n{text}")
    assert policy.network is not None
    assert policy.network.covers("a.b.internal.example", 443)
    assert set(policy.secrets) == {"STRIPE_KEY", "INDEX_KEY"}
