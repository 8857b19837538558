"""The code blocks of a Markdown page, and whether what a command printed is what the page shows.

A fenced block begins with its language, and may name a file:

    ```console           commands after `$ `, each with all that it prints in a terminal
    ```sh                a script that must end with 0; its output is not shown
    ```python            run with the other Python blocks of the page, in one namespace
    ```yaml              a paddock file, a scenario, a model's script or a part of one; checked
    ```python agent.py   the file of this name in the scratch project; the same for other languages
    ```text, ```json     not run; ```text must not show commands

In the output of a command `…` stands for any text within a line, and a line of it alone for any
number of lines; how many blanks there are does not matter. The id of a run or of an approval stands
for the one that is printed in its place, there and in all that follows on the page. Comments before
a block say what else the page needs:

    <!-- project: examples/bash-curl -->   from here on, commands run in a copy of this directory
    <!-- given: image.tar -->              a file that the reader has; see given.py
    <!-- not run: it needs a real key -->  the next block is not run, for this reason

No test lives here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ANY = "…"
_ID = re.compile(r"\b(?=[a-z]*\d)(?:[a-z0-9]{12}|[0-9a-f]{8})\b")
_FENCE = re.compile(r"^( *)```(.*)$")
_COMMENT = re.compile(r"^<!-- (project|given|not run): (.+) -->$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `skipped` is the reason for which it is not run."""

    page: Path
    line: int
    language: str
    file: str
    text: str
    skipped: str = ""

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Project:
    """A change of the scratch project: a copy of this directory from here on."""

    directory: Path


@dataclass(frozen=True, slots=True)
class Given:
    """A file that is in the scratch project from here on."""

    name: str


Part = Block | Project | Given


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block, and all that it should print."""

    line: int
    text: str
    output: str


def pages() -> list[Path]:
    """Return all pages that users read."""
    found = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    return [ROOT / "README.md", *sorted(found)]


def parse(page: Path) -> list[Part]:
    """Return the blocks of a page, and what changes its project, in their order."""
    parts: list[Part] = []
    if page.is_relative_to(ROOT / "examples") and page.parent != ROOT / "examples":
        parts.append(Project(page.parent))
    lines = iter(enumerate(page.read_text().splitlines(), 1))
    skipped = ""
    for number, line in lines:
        if comment := _COMMENT.match(line):
            kind, words = comment.groups()
            match kind:
                case "project":
                    parts.append(Project(ROOT / words))
                case "given":
                    parts.append(Given(words))
                case _:
                    skipped = words
        elif fence := _FENCE.match(line):
            indent, (language, _, file) = fence[1], fence[2].partition(" ")
            text = []
            for _, inner in lines:
                if inner == indent + "```":
                    break
                text.append(inner.removeprefix(indent))
            block = "\n".join(text) + "\n"
            parts.append(Block(page, number, language, file, block, skipped))
            skipped = ""
        elif line:
            assert not skipped, f"{page}:{number}: a `not run` comment must stand before a block"
    return parts


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block. A line that ends with a backslash goes on."""
    found: list[Command] = []
    rows = block.text.splitlines()
    while rows:
        line = block.line + 1 + len(block.text.splitlines()) - len(rows)
        first = rows.pop(0)
        assert first.startswith("$ "), f"{block.place}: a console block begins with `$ `"
        text = first[2:]
        while text.endswith("\\"):
            text += "\n" + rows.pop(0)
        output = []
        while rows and not rows[0].startswith("$ "):
            output.append(rows.pop(0))
        found.append(Command(line, text, "\n".join(output)))
    return found


def commands_of(page: Path) -> list[Command]:
    """Return all commands of a page, also those that the test of the pages does not run."""
    blocks = [part for part in parse(page) if isinstance(part, Block)]
    return [one for block in blocks if block.language == "console" for one in commands(block)]


def fits(shown: str, printed: str, ids: dict[str, str] | None = None) -> bool:
    """Whether a command printed what the page shows. Ids that it shows first are added to `ids`."""
    ids = {} if ids is None else ids
    pattern, new = "", set[str]()
    for line in _tidy(shown):
        if line == ANY:
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += r"[^\n]*".join(_with_ids(part, ids, new) for part in line.split(ANY)) + r"\n"
    match = re.fullmatch(pattern, "".join(line + "\n" for line in _tidy(printed)))
    if match is None:
        return False
    ids.update({name.removeprefix("id_"): value for name, value in match.groupdict().items()})
    return True


def with_real_ids(command: str, ids: dict[str, str]) -> str:
    """Return a command with the ids of this session in place of those that the page shows."""
    return _ID.sub(lambda found: ids.get(found[0], found[0]), command)


def _with_ids(text: str, ids: dict[str, str], new: set[str]) -> str:
    """Return a pattern for a piece of a line. An id that is new on the page matches any id."""
    pattern, at = "", 0
    for found in _ID.finditer(text):
        pattern += re.escape(text[at : found.start()])
        name, at = found[0], found.end()
        if name in ids:
            pattern += re.escape(ids[name])
        elif name in new:
            pattern += f"(?P=id_{name})"
        else:
            new.add(name)
            pattern += f"(?P<id_{name}>[a-z0-9]{{{len(name)}}})"
    return pattern + re.escape(text[at:])


def _tidy(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip("\n").splitlines()]
