"""The commands of `paddock`, in groups: what each one is for, and an example of it."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One command; its module in this package has the same name."""

    name: str
    what: str  # one line, short enough for a terminal of 80 columns
    example: str


GROUPS: dict[str, tuple[Command, ...]] = {
    "start": (
        Command("init", "write a paddock.yaml for this project", "paddock init"),
        Command(
            "run",
            "run an agent under a paddock file, on record",
            "paddock run -- python my_agent.py",
        ),
        Command(
            "test", "run scenarios and check what is expected", "paddock test scenarios/refund.yaml"
        ),
        Command("demo", "show an agent at work, and what stops it", "paddock demo --fast"),
        Command("doctor", "test what can be enforced on this host", "paddock doctor"),
    ),
    "look": (
        Command("runs", "list runs, newest first", "paddock runs --since 24h"),
        Command("show", "show what a run did, step by step", "paddock show last --only blocked"),
        Command("step", "walk through a run in the terminal", "paddock step last"),
        Command("net", "list what a run sent over the network", "paddock net last --blocked"),
        Command("files", "list or print the files of a run", "paddock files last src --step 4"),
        Command(
            "changes", "list what a run changed in mounted files", "paddock changes last --diff"
        ),
        Command("world", "show the stand-ins of a run and their state", "paddock world diff last"),
        Command("verdicts", "judge what an agent did after each fault", "paddock verdicts last"),
        Command(
            "compare", "compare runs: where they part, what came of it", "paddock compare a1 b2"
        ),
    ),
    "continue": (
        Command(
            "replay",
            "read a run again, or run its agent on the record",
            "paddock replay last --agent",
        ),
        Command("fork", "start a second future at a step of a run", "paddock fork last --at 7"),
        Command("apply", "write the changes of a run back", "paddock apply last src/app.py"),
    ),
    "decide": (
        Command(
            "policy",
            "check, explain, test and learn paddock files",
            "paddock policy explain --exec 'git push'",
        ),
        Command("trust", "agree to what a paddock file asks of this host", "paddock trust"),
        Command("approvals", "list and answer what agents ask", "paddock approvals approve 3f"),
        Command("drafts", "list, send and discard writes that were kept", "paddock drafts show 9c"),
        Command(
            "secrets", "list and revoke secrets of sandboxes", "paddock secrets revoke API_KEY"
        ),
    ),
    "prove": (
        Command("verify", "check a journal or a proof", "paddock verify last"),
        Command("prove", "write a proof of one step", "paddock prove last --step 3 -o proof.json"),
        Command(
            "export",
            "write a run as otel, har, jsonl or csv",
            "paddock export last --format har -o run.har",
        ),
    ),
    "sandbox": (
        Command("shell", "open a terminal in a sandbox", "paddock shell -m .:/work:overlay"),
        Command("exec", "run one command in a sandbox", "paddock exec -- python3 -c 'print(1)'"),
        Command("ps", "list running sandboxes", "paddock ps"),
        Command("kill", "end sandboxes", "paddock kill --all"),
    ),
    "state": (
        Command(
            "template", "add, list and remove root file systems", "paddock template add image.tar"
        ),
        Command(
            "volume", "make, list and remove volumes", "paddock volume create cache --quota 2GiB"
        ),
        Command("snapshot", "list, verify and remove snapshots", "paddock snapshot list"),
        Command("df", "show what takes space, and what is unused", "paddock df"),
        Command("gc", "remove what nothing refers to", "paddock gc --dry-run"),
        Command("reindex", "build the index of runs again", "paddock reindex"),
    ),
    "more": (
        Command(
            "completion",
            "print the completion script of a shell",
            'eval "$(paddock completion bash)"',
        ),
        Command("help", "show the help of a command", "paddock help policy explain"),
    ),
}
COMMANDS = {command.name: command for group in GROUPS.values() for command in group}


def overview() -> str:
    """Return what `paddock --help` prints: every command in its group."""
    lines = [
        "usage: paddock COMMAND [OPTIONS]",
        "",
        "A sandbox for AI agents, enforced below the model.",
        "",
    ]
    for group, commands in GROUPS.items():
        for at, command in enumerate(commands):
            title = group if at == 0 else ""
            lines.append(f"{title:9} {command.name:11} {command.what}")
    lines += ["", "paddock help COMMAND shows its options and an example; paddock --version."]
    return "\n".join(lines)
