"""The commands of `paddock`, in groups: what each one is for, and an example of it."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """One command; its module in this package has the same name."""

    name: str
    what: str  # one line, short enough for a terminal of 80 columns
    example: str


GROUPS: dict[str, tuple[CommandEntry, ...]] = {
    "start": (
        CommandEntry("init", "write a paddock.yaml for this project", "paddock init"),
        CommandEntry(
            "run",
            "run an agent under a paddock file, on record",
            "paddock run -- python my_agent.py",
        ),
        CommandEntry(
            "test", "run scenarios and check what is expected", "paddock test scenarios/refund.yaml"
        ),
        CommandEntry("demo", "show an agent at work, and what stops it", "paddock demo --fast"),
        CommandEntry("doctor", "test what can be enforced on this host", "paddock doctor"),
    ),
    "look": (
        CommandEntry("runs", "list runs, newest first", "paddock runs --since 24h"),
        CommandEntry(
            "show", "show what a run did, step by step", "paddock show last --only blocked"
        ),
        CommandEntry("step", "walk through a run in the terminal", "paddock step last"),
        CommandEntry("net", "list what a run sent over the network", "paddock net last --blocked"),
        CommandEntry(
            "files", "list or print the files of a run", "paddock files last src --step 4"
        ),
        CommandEntry(
            "changes", "list what a run changed in mounted files", "paddock changes last --diff"
        ),
        CommandEntry(
            "world", "show the stand-ins of a run and their state", "paddock world diff last"
        ),
        CommandEntry(
            "verdicts", "judge what an agent did after each fault", "paddock verdicts last"
        ),
        CommandEntry(
            "compare", "compare runs: where they part, what came of it", "paddock compare a1 b2"
        ),
    ),
    "continue": (
        CommandEntry(
            "replay",
            "read a run again, or run its agent on the record",
            "paddock replay last --agent",
        ),
        CommandEntry(
            "fork", "start a second future at a step of a run", "paddock fork last --at 7"
        ),
        CommandEntry("apply", "write the changes of a run back", "paddock apply last src/app.py"),
    ),
    "decide": (
        CommandEntry(
            "policy",
            "check, explain, test and learn paddock files",
            "paddock policy explain --exec 'git push'",
        ),
        CommandEntry("trust", "agree to what a paddock file asks of this host", "paddock trust"),
        CommandEntry(
            "approvals", "list and answer what agents ask", "paddock approvals approve 3f"
        ),
        CommandEntry(
            "drafts", "list, send and discard writes that were kept", "paddock drafts show 9c"
        ),
        CommandEntry(
            "secrets", "list and revoke secrets of sandboxes", "paddock secrets revoke API_KEY"
        ),
    ),
    "prove": (
        CommandEntry("verify", "check a journal or a proof", "paddock verify last"),
        CommandEntry(
            "prove", "write a proof of one step", "paddock prove last --step 3 -o proof.json"
        ),
        CommandEntry(
            "export",
            "write a run as otel, har, jsonl or csv",
            "paddock export last --format har -o run.har",
        ),
    ),
    "sandbox": (
        CommandEntry("shell", "open a terminal in a sandbox", "paddock shell -m .:/work:overlay"),
        CommandEntry(
            "exec", "run one command in a sandbox", "paddock exec -- python3 -c 'print(1)'"
        ),
        CommandEntry("ps", "list running sandboxes", "paddock ps"),
        CommandEntry("kill", "end sandboxes", "paddock kill --all"),
    ),
    "state": (
        CommandEntry(
            "template", "add, list and remove root file systems", "paddock template add image.tar"
        ),
        CommandEntry(
            "volume", "make, list and remove volumes", "paddock volume create cache --quota 2GiB"
        ),
        CommandEntry("snapshot", "list, verify and remove snapshots", "paddock snapshot list"),
        CommandEntry("df", "show what takes space, and what is unused", "paddock df"),
        CommandEntry("gc", "remove what nothing refers to", "paddock gc --dry-run"),
        CommandEntry("reindex", "build the index of runs again", "paddock reindex"),
    ),
    "more": (
        CommandEntry(
            "completion",
            "print the completion script of a shell",
            'eval "$(paddock completion bash)"',
        ),
        CommandEntry("help", "show the help of a command", "paddock help policy explain"),
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
