"""The argument parser of every command: argparse, with short usage lines, defaults and an example
in the help, and a suggestion where a word is nearly right.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from paddock.cli.arguments import step
from paddock.cli.command_list import COMMANDS
from paddock.cli.exit_codes import ExitCode
from paddock.cli.output import sentences

RUN_HELP = "an id, the beginning of one, `last` (the newest of this directory), or a path"


class CommandParser(argparse.ArgumentParser):
    """The parser of one command, or of one of its subcommands. `instead` has what to write for
    options that only other commands have. The methods `add_run`, `add_step`, `add_json`, `add_flag`
    and `add_texts` add the arguments that most commands have."""

    def __init__(self, *, instead: Mapping[str, str] | None = None, **settings: Any) -> None:
        settings.setdefault("formatter_class", _Help)
        super().__init__(**settings)
        self._instead = instead or {}
        self._words: Sequence[str] = ()  # that are parsed
        self.register("action", "parsers", _Subcommands)
        self.description = _sentence(self.description)
        name = self.prog.removeprefix("paddock ")
        if name in COMMANDS:
            example = f"example:\n  {COMMANDS[name].example}"
            self.epilog = f"{self.epilog}\n\n{example}" if self.epilog else example

    def add_run(self, name: str = "run", **settings: Any) -> None:
        """Add the argument RUN, as `find_journal` takes it."""
        self.add_argument(name, **{"metavar": "RUN", "help": RUN_HELP, **settings})

    def add_step(self, meaning: str) -> None:
        """Add `--step K`."""
        self.add_argument("--step", type=step, metavar="K", help=meaning)

    def add_json(self, meaning: str = "one JSON object") -> None:
        """Add `--json`, the output for programs."""
        self.add_flag("--json", meaning)

    def add_flag(self, *names_and_meaning: str) -> None:
        """Add an option without a value: its names, and at last what it means."""
        *names, meaning = names_and_meaning
        self.add_argument(*names, action="store_true", help=meaning)

    def add_texts(self, *names: str, metavar: str, help: str) -> None:
        """Add an option that may be given several times."""
        self.add_argument(*names, action="append", default=[], metavar=metavar, help=help)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        self._words = self._words or list(args or ())
        return super().parse_known_args(args, namespace)

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        options, rest = self.parse_known_args(args, namespace)
        self.refuse(rest)
        return options

    def parse_intermixed_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        parsed: tuple[argparse.Namespace, list[str]]
        parsed = self.parse_known_intermixed_args(args, namespace)
        self.refuse(parsed[1])
        return parsed[0]

    def print_help(self, file: Any = None) -> None:
        """Write the help. That of argparse hides, in newer Pythons, that nobody reads it."""
        (file or sys.stdout).write(self.format_help())

    def refuse(self, rest: Sequence[str]) -> None:
        """End the program when unknown words are left over; name the nearest option."""
        if not rest:
            return
        parser = self._chosen_parser()
        for word in rest:
            if word.startswith("-"):
                parser._refuse_option(word)
        parser.error(f"{rest[0][:60]!r} is one word too many")

    def _refuse_option(self, word: str) -> None:
        name = word.partition("=")[0][:60]
        if name in self._instead:
            self.error(f"there is no option {name}; write {self._instead[name]}")
        self.error(f"there is no option {name}{suggestion(name, self.option_names())}")

    def error(self, message: str) -> Any:
        """End the program with a message about wrong arguments."""
        name = self.prog.removeprefix("paddock ")
        hint = f"paddock help {name} shows how it is used"
        self.exit(ExitCode.USAGE, f"paddock: {name}: {message}\n  hint: {hint}\n")

    def option_names(self) -> list[str]:
        return [name for action in self._actions for name in action.option_strings]

    def subcommands(self) -> dict[str, CommandParser]:
        """Return the parsers of its subcommands, by name."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def _chosen_parser(self) -> CommandParser:
        """Return the parser of the subcommand that the words name; itself if they name none."""
        below = self.subcommands()
        named = next((word for word in self._words if word in below), None)
        return self if named is None else below[named]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        names = [str(name) for name in action.choices]
        what = "value"
        if isinstance(action, argparse._SubParsersAction):
            what = "subcommand"
            self._refuse_option_before(str(value))
        nearest = suggestion(str(value), names) or f"; choose from {', '.join(names)}"
        raise argparse.ArgumentError(action, f"there is no {what} {str(value)[:60]!r}{nearest}")

    def _refuse_option_before(self, value: str) -> None:
        """Refuse a wrong option whose value was taken for a subcommand."""
        before = self._words[: self._words.index(value)] if value in self._words else ()
        options = tuple(self.option_names())
        for word in before:
            if word.startswith("--") and not any(name.startswith(word) for name in options):
                self._refuse_option(word)


def suggestion(word: str, names: Iterable[str]) -> str:
    """Return `; did you mean ...?` with the name that is nearest to a word, or nothing."""
    import difflib

    nearest = difflib.get_close_matches(word, list(names), n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


class _Subcommands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """The subcommands of a command. Their line in its list is the description in their own help."""

    def add_parser(self, name: str, **settings: Any) -> Any:
        settings.setdefault("description", settings.get("help"))
        return super().add_parser(name, **settings)


class _Help(argparse.HelpFormatter):
    """A formatter that keeps the lines of an epilog, adds defaults, and shortens the usage to what
    must be given."""

    def add_usage(
        self, usage: Any, actions: Iterable[argparse.Action], groups: Any, prefix: Any = None
    ) -> None:
        actions = list(actions)
        needed = [action for action in actions if action.required or not action.option_strings]
        if usage is None and len(needed) < len(actions):
            self._prog = f"{self._prog} [OPTIONS]"
        super().add_usage(usage, needed, [], prefix)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, False, "", argparse.SUPPRESS) or action.default == []:
            return action.help
        return f"{action.help} (default: %(default)s)"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = text.split("\n")
        return "\n".join(
            line if line.startswith(" ") else super(_Help, self)._fill_text(line, width, indent)
            for line in lines
        )


def _sentence(text: str | None) -> str | None:
    """Return the description as one paragraph; a module's docstring begins with its command."""
    if text is None:
        return None
    paragraph = " ".join(text.split())
    if paragraph.startswith("`paddock "):
        paragraph = paragraph.split(": ", 1)[-1]
    return paragraph[:1].upper() + paragraph[1:]


def command(
    make_parser: Callable[[], CommandParser], *, is_intermixed: bool = False
) -> Callable[[Callable[[argparse.Namespace], int]], Callable[[list[str]], int]]:
    """Make a function of parsed options the `main` of a command, which takes its arguments. What
    the host refuses meanwhile becomes a PaddockError. `is_intermixed`: positional arguments may
    stand on both sides of options."""

    def decorate(run: Callable[[argparse.Namespace], int]) -> Callable[[list[str]], int]:
        def main(arguments: list[str]) -> int:
            parser = make_parser()
            parse = parser.parse_intermixed_args if is_intermixed else parser.parse_args
            options = parse(arguments)
            with sentences():
                return run(options)

        return main

    return decorate


def parser_of(name: str) -> CommandParser:
    """Return the parser of a command, by the module that has it."""
    parser: CommandParser = importlib.import_module(f"paddock.cli.commands.{name}").make_parser()
    return parser
