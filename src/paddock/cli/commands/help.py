"""`paddock help`: the help of a command or of one of its subcommands, or the list of all."""

from __future__ import annotations

from paddock.cli.command_list import COMMANDS, overview
from paddock.cli.parser import CommandParser, parser_of, suggestion
from paddock.model.errors import InvalidInput


def main(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    print(_help_of(options.names).rstrip("\n") if options.names else overview())
    return 0


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock help", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="COMMAND", help="and its subcommand, if any")
    return parser


def _help_of(names: list[str]) -> str:
    name, *below = names
    if name not in COMMANDS:
        near = suggestion(name, COMMANDS)
        raise InvalidInput(f"help: there is no command {name!r}{near}",
                           hint="paddock --help lists all commands")  # fmt: skip
    parser = parser_of(name)
    for word in below:
        subcommands = parser.subcommands()
        if word not in subcommands:
            near = suggestion(word, subcommands)
            raise InvalidInput(f"help: {parser.prog} has no subcommand {word!r}{near}",
                               hint=f"{parser.prog} --help shows what there is")  # fmt: skip
        parser = subcommands[word]
    return parser.format_help()
