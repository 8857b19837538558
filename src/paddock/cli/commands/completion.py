"""`paddock completion`: the script with which a shell completes commands, options, runs and files.

The script of each shell is a few lines: it hands the words of the line to `paddock completion
--words`, which answers with one candidate a line. So what is offered is always what this version
of Paddock takes, and nothing has to be generated again after an upgrade.

An answer's line is a candidate, a tab and what it means; or one of these, which the shell can do
better itself: `:files`, `:directories`, and `:command N` where the words from the Nth on (counted
from 0, without `paddock`) are a command line of their own.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from paddock.cli.command_list import COMMANDS
from paddock.cli.parser import CommandParser, parser_of

_MAX_RUNS = 100  # the newest; more of them help nobody
_TOP_OPTIONS = (("--help", "list all commands"), ("--version", "print the version"))
_FILES, _DIRECTORIES = ":files", ":directories"

BASH = r"""
_paddock() {
    local cur=${COMP_WORDS[COMP_CWORD]} program=${1/#\~/$HOME} line
    [[ $cur == "=" ]] && cur=
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :files)
                compopt -o filenames
                mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
                ;;
            :directories)
                compopt -o filenames
                mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$cur")
                ;;
            ":command "*)
                if declare -F _command_offset >/dev/null; then
                    _command_offset $((${line#:command } + 1))
                elif ((${line#:command } + 1 == COMP_CWORD)); then
                    mapfile -t COMPREPLY < <(compgen -c -- "$cur")
                else
                    compopt -o filenames
                    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                fi
                ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <("$program" completion --words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o nosort -F _paddock paddock
"""

ZSH = r"""
#compdef paddock
_paddock() {
    local line
    local -a found
    for line in ${(f)"$($~words[1] completion --words -- "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
        case $line in
            :files) _files ;;
            :directories) _files -/ ;;
            ":command "*)
                shift $((${line#:command } + 1)) words
                ((CURRENT -= ${line#:command } + 1))
                _normal
                ;;
            *) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    (($#found)) && _describe -V paddock found
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _paddock "$@"
else
    compdef _paddock paddock
fi
"""

FISH = r"""
function __paddock_words
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    for line in ($program completion --words -- $words "$current" 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path "$current"
            case ':directories'
                __fish_complete_directories "$current"
            case ':command *'
                set -l at (math (string replace ':command ' '' -- $line) + 1)
                complete -C (string join -- ' ' (string escape -- $words[$at..]) "$current")
            case '*'
                echo $line
        end
    end
end
complete -c paddock -f -k -a '(__paddock_words)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--words"]:  # what follows is another command line, whatever it looks like
        for line in candidates(arguments[2:] if arguments[1:2] == ["--"] else arguments[1:]):
            print(line)
        return 0
    options = make_parser().parse_args(arguments)
    print(SCRIPTS[options.shell].strip("\n"))
    return 0


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock completion", description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("shell", nargs="?", choices=list(SCRIPTS), help="bash, zsh or fish")
    which.add_argument("--words", nargs=argparse.REMAINDER, metavar="WORD",
                       help="for the scripts: what the last word may be")  # fmt: skip
    return parser


def candidates(words: Sequence[str]) -> Iterator[str]:
    """Yield what may stand in place of the last of the words, which follow `paddock`."""
    *before, current = _rejoin(words) or [""]
    if not before:
        yield from _commands(current)
        if current:
            yield from _match(current, _TOP_OPTIONS)
    elif before[0] == "help" and before[1:] and before[1] in COMMANDS:
        yield from _match(current, ((name, None) for name in parser_of(before[-1]).subcommands()))
    elif before[0] in COMMANDS:
        yield from _Line(parser_of(before[0]), before[1:]).candidates(current)


class _Line:
    """The words of a command before the one that is completed, as its parser would take them."""

    def __init__(self, parser: CommandParser, before: Sequence[str]) -> None:
        self._parser = parser
        self._at = len(before) + 1
        self._used: set[argparse.Action] = set()
        self._waiting: list[argparse.Action] = []  # the option, once for each value that follows
        self._positionals = _positionals(parser)
        self._command_at: int | None = None  # where the words of another program begin
        for at, word in enumerate(before, 1):
            if self._command_at is None:
                self._take(word, at)

    def candidates(self, current: str) -> Iterator[str]:
        if self._command_at is not None:
            yield f":command {self._command_at}"
            return
        option, equals, value = current.partition("=")
        if self._waiting:
            yield from _values(self._waiting[0], current)
        elif equals and (action := self._option(option)) is not None:
            for line in _values(action, value):
                yield line if line.startswith(":") else f"{option}={line}"
        elif current.startswith("-"):
            yield from self._options(current)
        elif self._positionals:
            action = self._positionals[0]
            is_command = action.nargs == argparse.REMAINDER
            yield from [f":command {self._at}"] if is_command else _values(action, current)
        elif not current:
            yield from self._options("--")

    def _take(self, word: str, at: int) -> None:
        if self._waiting:
            self._waiting.pop()
        elif word == "--":
            self._command_at = at + 1
        elif word.startswith("-") and len(word) > 1:
            self._take_option(word)
        elif self._positionals:
            self._take_positional(word, at)

    def _take_option(self, word: str) -> None:
        action = self._option(word.partition("=")[0])
        if action is None:
            return
        if not isinstance(action, argparse._AppendAction):
            self._used.add(action)
        if "=" not in word:
            count = 1 if action.nargs is None else action.nargs
            self._waiting = [action] * (count if isinstance(count, int) else 0)

    def _take_positional(self, word: str, at: int) -> None:
        action = self._positionals[0]
        if isinstance(action, argparse._SubParsersAction):
            if word in action.choices:
                self._parser = action.choices[word]
                self._positionals = _positionals(self._parser)
        elif action.nargs == argparse.REMAINDER:
            self._command_at = at
        elif action.nargs not in ("*", "+"):
            del self._positionals[0]

    def _option(self, name: str) -> argparse.Action | None:
        actions = [action for action in self._parser._actions if name in action.option_strings]
        return actions[0] if actions else None

    def _options(self, current: str) -> Iterator[str]:
        """Yield the options that may still be given; of one with two names the long one, unless the
        short one is being written."""
        for action in self._parser._actions:
            names = [name for name in action.option_strings if name.startswith(current)]
            if names and action not in self._used:
                help_text = "show the help" if action.dest == "help" else action.help
                yield _line(max(names, key=len), help_text)


def _positionals(parser: CommandParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]


def _rejoin(words: Sequence[str]) -> list[str]:
    """Put together what bash has taken apart: `--format`, `=` and `har` are an option and a value,
    as they are without the `=`."""
    joined: list[str] = []
    for at, word in enumerate(words):
        is_sign = word == "=" and at > 0 and words[at - 1].startswith("--")
        if not is_sign:
            joined.append(word)
        elif at == len(words) - 1:
            joined.append("")  # the value is still to be written
    return joined


def _values(action: argparse.Action, current: str) -> Iterator[str]:
    """Yield what an option or a positional may be, known from its choices or from its metavar."""
    if isinstance(action, argparse._SubParsersAction):
        about = {choice.dest: choice.help for choice in action._choices_actions}
        yield from _match(current, ((name, about.get(name)) for name in action.choices))
    elif action.choices is not None:
        yield from _match(current, ((str(choice), None) for choice in action.choices))
    else:
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        for word in re.split(r"[|:\[]", metavar):
            if word in _KINDS:
                yield from _KINDS[word](current)


def _match(current: str, candidates: Iterable[tuple[str, str | None]]) -> Iterator[str]:
    for name, what in candidates:
        if name.startswith(current):
            yield _line(name, what)


def _line(name: str, what: str | None) -> str:
    return f"{name}\t{what}" if what else name


def _files(current: str) -> Iterator[str]:
    yield _FILES


def _directories(current: str) -> Iterator[str]:
    yield _DIRECTORIES


def _runs(current: str) -> Iterator[str]:
    """Yield the newest runs first. A journal's directory changes when its run begins a segment, so
    that its time is near enough."""
    yield from _match(current, [("last", "the newest run")])
    yield from _stored_names("runs", current)


def _commands(current: str) -> Iterator[str]:
    yield from _match(current, ((command.name, command.what) for command in COMMANDS.values()))


def _stored_names(kind: str, current: str, suffix: str = "") -> Iterator[str]:
    """Yield the names of what is stored of a kind in a directory of this home, newest first."""
    import time

    from paddock.state.home import Home

    try:
        with os.scandir(Home.locate().root / kind) as entries:
            names = [
                (entry.stat().st_mtime, entry.name.removesuffix(suffix))
                for entry in entries
                if entry.name.startswith(current)
                and entry.name.endswith(suffix)
                and not entry.name.startswith(".")
            ]
    except OSError:
        return
    for at, name in sorted(names, reverse=True)[:_MAX_RUNS]:
        yield _line(name, time.strftime("%Y-%m-%d %H:%M", time.localtime(at)))


def _snapshots(current: str) -> Iterator[str]:
    """Yield the names of snapshots, newest first, and the ids of those without a name."""
    import time

    from paddock.state.home import Home
    from paddock.state.snapshots.store import SnapshotStore

    directory = Home.locate().snapshots
    snapshots = SnapshotStore(directory).list() if directory.exists() else []
    for snapshot in reversed(snapshots[-_MAX_RUNS:]):
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(snapshot.created_at))
        yield from _match(current, [(snapshot.name or snapshot.snapshot_id, made)])


_KINDS: dict[str, Callable[[str], Iterator[str]]] = {
    "COMMAND": _commands,
    "DIR": _directories,
    "FILE": _files,
    "FILE.har": _files,
    "PADDOCK.YAML": _files,
    "PATH": _files,
    "RUN": _runs,
    "SANDBOX": lambda current: _stored_names("sandboxes", current),
    "SCENARIO": _files,
    "SNAPSHOT": _snapshots,
    "SOURCE": _files,
    "TEMPLATE": lambda current: _stored_names("templates", current),
    "VOLUME": lambda current: _stored_names("volumes", current, ".json"),
}
