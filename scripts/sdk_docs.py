"""Writes docs/sdk.md: every public name of the package with its signature and docstring, and one
example for each group. The test suite fails when the page is not what this file makes of the code,
and runs every example.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import paddock
from paddock.doors.machine import code, sandbox, volumes, workspace
from paddock.model import code as executions
from paddock.model import results
from paddock.state.snapshots import store as snapshots

PAGE = Path(__file__).resolve().parents[1] / "docs" / "sdk.md"
WIDTH = 100
# Names that only the code needs, and what they stand for.
ALIASES = {
    r"\bPolicyWord\b": "str | PathLike | Policy | None",
    r"\bTimeout \| DefaultTimeout\b": "float | str | None",
    r"\bTextCallback\b": "Callable[[str | bytes], Any]",
    r"\bContent\b": "str | bytes | IO",
    r"\bbuiltins\.": "",
}

INTRODUCTION = """\
# The Python SDK

`Sandbox` waits for each answer; `AsyncSandbox` has the same calls with the same parameters, to be
awaited. The shape is E2B's. Every call is on this page, which `scripts/sdk-docs` writes from the
code; its examples run as they stand.

- Paths are those of the sandbox; relative ones start at its home directory, `/home/user`.
- Times are seconds or text such as `"5m"`; sizes are bytes or text such as `"512MiB"`.
- A timeout of `None` or `0` means without end, unless the call says otherwise.
- An unknown keyword is a `TypeError`; a value that makes no sense raises `InvalidInput` before
  anything is done.
"""

ASYNC = """\
## AsyncSandbox

The same calls, awaited. Callbacks run on the caller's loop and may be coroutines.

```python
import asyncio

from paddock import AsyncSandbox


async def main() -> None:
    async with await AsyncSandbox.create() as box:
        results = await asyncio.gather(*(box.commands.run(f"echo {n}") for n in range(3)))
        assert [result.stdout for result in results] == ["0\\n", "1\\n", "2\\n"]
        async for piece in await box.files.read("/etc/passwd", format="stream"):
            assert piece


asyncio.run(main())
```
"""


class Group(msgspec.Struct, frozen=True):
    """A heading, what is said below it, an example, and the classes whose calls follow. `called` is
    how a caller reaches an object of a class."""

    title: str
    text: str
    example: str
    classes: dict[type, str]


GROUPS = [
    Group(
        "Sandboxes",
        "Made, found, forked, saved, paused and ended. Leaving the `with` block ends the sandbox.\n"
        "Calls that come while a sandbox stands still for a fork or a snapshot wait for that\n"
        "moment; one that was paused refuses them with `Conflict` until it is resumed.\n"
        "\n"
        "`limits`: `cpu` (cores), `memory`, `pids`, `disk`, `files` (open at once), `output` (of\n"
        "one command) and `time` (of the sandbox, whatever its timeout). The `mode` of a mount:\n"
        "`read`, `write`, or `overlay`, where reads are real and writes stay in the sandbox. A\n"
        "process that makes many sandboxes keeps a small pool of them warm; `PADDOCK_POOL=0`\n"
        "turns that off.",
        """\
from paddock import Sandbox

with Sandbox.create(limits={"memory": "512MiB", "cpu": 1}, timeout="10m") as box:
    box.files.write("state.txt", "one")
    box.snapshot(name="first-state")
    with box.fork() as second:
        second.files.write("state.txt", "two")
    assert box.files.read("state.txt") == "one"

with Sandbox.create(snapshot="first-state") as again:
    assert again.files.read("state.txt") == "one"

for saved in Sandbox.list_snapshots():
    print(saved.name, saved.snapshot_id, saved.size_bytes, saved.created_at)
Sandbox.delete_snapshot("first-state")
""",
        {
            sandbox.Sandbox: "box",
            workspace.Changes: "changes",
            sandbox.SandboxPool: "pool",
        },
    ),
    Group(
        "Commands",
        "A program that cannot be started raises `CommandNotStarted`, with the `exit_code` that a\n"
        "shell would give: 127 if there is no such program, 126 if it cannot be executed or its\n"
        "working directory is not there. A text goes to the shell, which gives that status itself.",
        """\
from paddock import CommandExitException, CommandNotStarted, CommandTimeout, Sandbox

with Sandbox.create() as box:
    assert box.commands.run("echo $GREETING", envs={"GREETING": "hello"}).stdout == "hello\\n"
    try:
        box.commands.run("ls /nowhere")
    except CommandExitException as failed:
        assert failed.exit_code == 2
    try:
        box.commands.run(["no-such-program"])
    except CommandNotStarted as missing:
        assert missing.exit_code == 127

    handle = box.commands.run("read name; echo hi $name", background=True, stdin=True)
    handle.send_stdin("you\\n")
    assert handle.wait().stdout == "hi you\\n"

    handle = box.commands.run(["sleep", "600"], background=True, timeout=0.5)
    try:
        handle.wait()
    except CommandTimeout as late:
        assert late.killed_by == "timeout"
""",
        {sandbox.Commands: "box.commands", sandbox.CommandHandle: "handle"},
    ),
    Group(
        "Terminals",
        "The handle is the one of `commands.run` in the background.",
        """\
from paddock import Sandbox

with Sandbox.create() as box:
    shown = []
    terminal = box.pty.create(rows=24, cols=80, on_data=shown.append)
    terminal.send_stdin("echo $((6 * 7)); exit\\n")
    terminal.wait()
    assert b"42" in b"".join(shown)
""",
        {sandbox.Pty: "box.pty"},
    ),
    Group(
        "Files",
        "Through the guest: no path is resolved on the host.",
        """\
from paddock import FileMissing, Sandbox

with Sandbox.create() as box:
    box.files.write("notes/today.txt", "first line\\n")
    box.files.write("notes/today.txt", "second line\\n", is_append=True)
    assert [entry.name for entry in box.files.list("notes")] == ["today.txt"]
    assert sum(len(piece) for piece in box.files.read("notes/today.txt", format="stream")) == 23
    try:
        box.files.read("nothing", format="stream")
    except FileMissing as missing:
        assert missing.path == "/home/user/nothing"
    with box.files.lock("notes/lock", timeout="5s"):
        box.files.rename("notes/today.txt", "notes/yesterday.txt")
""",
        {
            sandbox.Files: "box.files",
            sandbox.FileStream: "stream",
            sandbox.WatchHandle: "watch",
        },
    ),
    Group(
        "Volumes",
        "Directories that outlive sandboxes and can be mounted by several at a time.",
        """\
from paddock import Sandbox, Volume

volume = Volume.create("sdk-page-example", quota="100MiB")
with Sandbox.create(mounts=[{"volume": volume.name, "target": "/data"}]) as box:
    box.commands.run("echo kept > /data/file")
with Sandbox.create(mounts=[{"volume": volume.name, "target": "/data"}]) as box:
    assert box.files.read("/data/file") == "kept\\n"
volume.delete()
""",
        {volumes.Volume: "volume"},
    ),
]

CODE_EXAMPLE = """\
from paddock import Sandbox

with Sandbox.create() as box:
    box.run_code("x = 20")
    assert box.run_code("x + 1").text == "21"
    failed = box.run_code("1 / 0")
    assert failed.error.name == "ZeroDivisionError"
"""
CODE_CALLS = ("run_code", "create_code_context", "remove_code_context")

VALUES = [
    results.CommandResult, results.ProcessInfo, results.EntryInfo, results.WatchEvent,
    results.SandboxInfo, results.Metrics, results.ExecEvent, results.FileEvent,
    snapshots.SnapshotInfo, executions.Execution, executions.ExecutionError,
    executions.Logs, executions.Result, code.CodeContext,
]  # fmt: skip


def page() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION]
    for group in GROUPS:
        parts += _group(group)
        if group.title == "Terminals":
            parts += _code()
    parts += [ASYNC, *_tools(), *_errors(), *_values()]
    return "\n".join(parts)


def _group(group: Group) -> Iterator[str]:
    yield f"## {group.title}\n\n{group.text}\n\n```python\n{group.example}```\n"
    for face, called in group.classes.items():
        yield f"### {face.__name__}\n\n{_text(face)}\n"
        for name in _public(face):
            if name not in CODE_CALLS:
                yield _call(face, name, called)


def _code() -> Iterator[str]:
    yield "## Code\n\nCells in a stateful IPython inside; what a cell raises is in the result.\n"
    yield f"```python\n{CODE_EXAMPLE}```\n"
    for name in CODE_CALLS:
        yield _call(sandbox.Sandbox, name, "box")


def _tools() -> Iterator[str]:
    yield "## Tools and runs\n\n[tools.md](tools.md) shows them at work.\n"
    for name in paddock.__all__:
        value = getattr(paddock, name)
        home = paddock._HOMES[name]
        is_error = isinstance(value, type) and issubclass(value, Exception)
        if home in ("paddock.doors.tools", "paddock.doors.tool_run") and not is_error:
            yield _entry(name, _signature(value, name, is_bound=False), value)


def _errors() -> Iterator[str]:
    yield "## Errors\n\nAll are `PaddockError`s. What a class adds to its bases:\n"
    yield "| error | is also | when |\n|---|---|---|"
    for name in paddock.__all__:
        value = getattr(paddock, name)
        if isinstance(value, type) and issubclass(value, Exception):
            bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
            yield f"| `{name}` | {bases} | {' '.join(_text(value).split())} |"
    yield ""


def _values() -> Iterator[str]:
    yield "## What calls return\n\nFrozen values; their fields:\n"
    for value in VALUES:
        fields = [f"`{name}: {_annotation(kind)}`" for name, kind in _fields(value)]
        yield f"- **{value.__name__}**: {' '.join(_text(value).split())} {', '.join(fields)}"
    yield ""


def _fields(value: type) -> Iterator[tuple[str, str]]:
    if issubclass(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield name, value.__annotations__[name]
    for name in _public(value):
        member = inspect.getattr_static(value, name)
        if isinstance(member, property):
            assert member.fget is not None
            yield name, str(member.fget.__annotations__["return"])


def _public(face: type) -> list[str]:
    """Names of calls and properties, in the order of the code; inherited ones last."""
    names = dict.fromkeys(name for kind in face.__mro__ for name in vars(kind))
    return [
        name
        for name in names
        if not name.startswith("_")
        and (callable(getattr(face, name)) or isinstance(getattr(face, name), property))
    ]


def _call(face: type, name: str, called: str) -> str:
    member = inspect.getattr_static(face, name)
    if isinstance(member, property):
        assert member.fget is not None
        shown = f"{called}.{name} -> {_annotation(str(member.fget.__annotations__['return']))}"
        return _entry(f"{called}.{name}", shown, member)
    owner = face.__name__ if isinstance(member, classmethod) else called
    function = inspect.unwrap(getattr(member, "__func__", member))
    shown = _signature(function, f"{owner}.{name}", is_bound=True)
    return _entry(f"{owner}.{name}", shown, function)


def _entry(name: str, shown: str, value: object) -> str:
    return f"#### {name}\n\n```text\n{shown}\n```\n\n{_text(value)}\n"


def _signature(function: Any, name: str, *, is_bound: bool) -> str:
    signature = inspect.signature(function)
    words: list[str] = []
    is_keyword_only = False
    for parameter in list(signature.parameters.values())[int(is_bound) :]:
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword_only:
            words.append("*")
            is_keyword_only = True
        # Of a struct the signature has types, and not what the code says.
        written = function.__annotations__.get(parameter.name, parameter.annotation)
        words.append(_parameter(parameter.replace(annotation=written)))
    returned = signature.return_annotation
    arrow = "" if returned in (signature.empty, None) else f" -> {_annotation(returned)}"
    line = f"{name}({', '.join(words)}){arrow}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){arrow}"])


def _parameter(parameter: inspect.Parameter) -> str:
    shown = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    shown += parameter.name
    if parameter.annotation is not parameter.empty:
        shown += f": {_annotation(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        shown += f" = {parameter.default!r}"
    return shown


def _annotation(annotation: object) -> str:
    shown = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    for pattern, text in ALIASES.items():
        shown = re.sub(pattern, text, shown)
    return shown.replace("None | None", "None")


def _text(value: object) -> str:
    text = inspect.getdoc(value)
    if not text:
        raise SystemExit(f"sdk-docs: {value!r} has no docstring")
    return text


def main(words: list[str]) -> int:
    """Write the page, or with --check only compare it."""
    if words not in ([], ["--check"]):
        print("usage: scripts/sdk-docs [--check]", file=sys.stderr)
        return 2
    made = page()
    if not words:
        PAGE.write_text(made)
    elif not PAGE.exists() or PAGE.read_text() != made:
        print("docs/sdk.md is not current; write it with scripts/sdk-docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
