"""`paddock policy`: checks a paddock file, says what it decides and why, and replays the past."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from paddock.cli.arguments import count
from paddock.cli.output import sentences
from paddock.cli.parser import CommandParser
from paddock.model.action import Stage

DEFAULT_FILE = Path("paddock.yaml")


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    module, name = _COMMANDS[options.action]
    run: Callable[[argparse.Namespace], int] = getattr(import_module(module), name)
    with sentences():
        return run(options)


def _parse(words: list[str]) -> argparse.Namespace:
    """Parse the arguments. Files and runs may stand on both sides of options, which argparse by
    itself does not take."""
    parser = make_parser()
    options, rest = parser.parse_known_args(words)
    if options.action == "explain" and "://" in "".join((options.http or [])[:-1]):
        *options.http, file = options.http  # FILE may stand behind the words of --http as well
        options.file = Path(file)
    several = {"check": "files", "replay": "runs", "learn": "runs"}.get(options.action)
    if rest and (several is None or any(word.startswith("-") for word in rest)):
        parser.refuse(rest)
    if several:
        setattr(options, several, [*getattr(options, several), *rest])
    return options


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock policy", description=__doc__)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    check = commands.add_parser("check", help="all that is wrong or doubtful; 1 when it is wrong")
    check.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="paddock.yaml; - is stdin"
    )
    how = check.add_mutually_exclusive_group()
    how.add_argument("--sarif", action="store_true", help="as SARIF 2.1.0, for code hosts")
    how.add_argument("--json", action="store_true", help="one JSON array")
    test = commands.add_parser("test", help="run the examples of the rules; 1 when one fails")
    test.add_argument("file", nargs="?", type=Path, default=DEFAULT_FILE, metavar="FILE",
                      help="the paddock file")  # fmt: skip
    test.add_json("one JSON array")
    _add_explain(commands.add_parser("explain", help="what is decided about an action, and why"))
    _add_replay(commands.add_parser("replay", help="what a file would have decided otherwise"))
    _add_learn(commands.add_parser("learn", help="the smallest file that a run needed"))
    commands.add_parser("schema", help="the JSON Schema of the paddock file, for editors")
    return parser


def _add_explain(parser: CommandParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, default=DEFAULT_FILE, metavar="FILE",
                        help="the paddock file")  # fmt: skip
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--action", dest="json_action", metavar="JSON",
                      help="an action as in examples or in the journal, @FILE, -")  # fmt: skip
    what.add_argument("--exec", metavar="WORDS", help="one program with its words")
    what.add_argument("--tool", metavar="NAME", help="a tool, with --args")
    what.add_argument("--file-read", metavar="PATH", help="a file of the sandbox")
    what.add_argument("--file-write", metavar="PATH", help="a file of the sandbox")
    what.add_argument("--code", metavar="LANGUAGE", help="a cell of code")
    what.add_argument("--http", nargs="+", metavar="METHOD URL",
                      help="a request, with --body and --header")  # fmt: skip
    what.add_argument("--connect", metavar="HOST:PORT", help="a connection")
    what.add_argument("--dns", metavar="NAME", help="a name that is looked up")
    what.add_argument("--model", metavar="PROVIDER/MODEL", help="a call of a model")
    parser.add_argument("--body", metavar="TEXT",
                        help="of --http: JSON or a form; @FILE, or - for stdin")  # fmt: skip
    parser.add_texts("--header", "-H", metavar="NAME: VALUE", help="of --http; again for more")
    parser.add_argument("--args", metavar="JSON",
                        help="the arguments of --tool, one object; @FILE; - is stdin")  # fmt: skip
    parser.add_texts("--spent", metavar="RULE=AMOUNT", help="what was spent of a limit before")
    parser.add_argument("--stage", choices=list(Stage), help="instead of the file's")
    parser.add_json()


def _add_replay(parser: CommandParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the candidate")
    parser.add_run("runs", nargs="*")
    parser.add_argument("--agent", metavar="A", help="all runs of one agent")
    parser.add_flag("--all", "all runs")
    parser.add_argument("--since", metavar="TIME", help="of those, the last 24h, 7d; or a date")
    parser.add_argument("--stage", choices=list(Stage), help="instead of the file's")
    parser.add_argument("--limit", type=count, default=100, metavar="N",
                        help="so many changes are listed; all are counted")  # fmt: skip
    parser.add_argument("--fail-on", choices=("looser", "any"),
                        help="end with 1 when something is looser, or changes")  # fmt: skip
    parser.add_json("one JSON object, with all changes")


def _add_learn(parser: CommandParser) -> None:
    parser.add_run("runs", nargs="+")
    parser.add_argument(
        "--agent", metavar="NAME", help="the agent's name in the file (default: the run's)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="instead of the output")
    parser.add_flag("--force", "also over a file that is there")


_COMMANDS = {
    "check": ("paddock.cli.commands.policy_check", "check_files"),
    "test": ("paddock.cli.commands.policy_check", "test_file"),
    "schema": ("paddock.cli.commands.policy_check", "print_schema"),
    "explain": ("paddock.cli.commands.policy_explain", "explain_action"),
    "replay": ("paddock.cli.commands.policy_past", "replay_runs"),
    "learn": ("paddock.cli.commands.policy_past", "learn_runs"),
}
