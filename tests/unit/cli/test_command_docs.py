"""That docs/command-line.md names every command, subcommand, option and choice that there is."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import paddock.cli.commands
from cases import for_each
from paddock.cli.command_list import COMMANDS
from paddock.cli.parser import CommandParser, parser_of

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "command-line.md").read_text()


def commands() -> list[str]:
    """Modules that say of themselves that they are a command."""
    found = []
    for module in pkgutil.iter_modules(paddock.cli.commands.__path__):
        source = Path(paddock.cli.commands.__path__[0], f"{module.name}.py").read_text()
        if source.startswith(f'"""`paddock {module.name}`'):
            found.append(module.name)
    return found


def all_parsers(parser: CommandParser) -> Iterator[CommandParser]:
    yield parser
    for below in parser.subcommands().values():
        yield from all_parsers(below)


def section(command: str) -> str:
    """The part of the page that is about one command."""
    found = re.search(rf"^## paddock {command}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, f"docs/command-line.md has no section `## paddock {command}`"
    return found[1]


def test_there_are_commands_and_all_that_main_knows_are_among_them() -> None:
    assert set(COMMANDS) <= set(commands())


@for_each("command", commands())
def test_command_has_a_section_with_all_its_options(command: str) -> None:
    text = section(command)
    missing = []
    for parser in all_parsers(parser_of(command)):
        if parser.prog not in text:
            missing.append(parser.prog)
        for action in parser._actions:
            names = [name for name in action.option_strings if name not in ("-h", "--help")]
            missing += [name for name in names if not re.search(rf"`{name}\b", text)]
            if names and action.choices:
                missing += [str(one) for one in action.choices if f"`{one}`" not in text]
    assert not missing, f"docs/command-line.md, section paddock {command}: {missing}"


def test_page_names_no_command_that_is_gone() -> None:
    named = re.findall(r"^## paddock ([a-z]+)$", PAGE, re.MULTILINE)
    assert sorted(named) == sorted(commands())
    assert len(named) == len(set(named))


def test_page_names_no_option_that_is_gone() -> None:
    for command in commands():
        known = {
            name
            for parser in all_parsers(parser_of(command))
            for action in parser._actions
            for name in action.option_strings
        }
        named = set(re.findall(r"`(--?[a-z][a-z-]*)", section(command)))
        assert named <= known, (command, named - known)
