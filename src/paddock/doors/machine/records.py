"""The parts of the results of commands and cells that the journal keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.model.code import Execution
    from paddock.model.results import CommandResult

MAX_RECORDED = 64 << 10  # characters of each output stream


def command_record(result: CommandResult) -> dict[str, Any]:
    """Return what the journal keeps of a command's result."""
    record: dict[str, Any] = {
        "exit_code": result.exit_code,
        "duration_us": int(1e6 * result.duration_s),
    }
    for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
        if text:
            record[name] = text[:MAX_RECORDED]
        if len(text) > MAX_RECORDED:
            record[f"{name}_chars"] = len(text)
    if result.killed_by:
        record["killed_by"] = result.killed_by
    return record


def code_record(done: Execution) -> dict[str, Any]:
    """Return what the journal keeps of a cell's result."""
    record: dict[str, Any] = {"results": [r.text for r in done.results if r.text][:100]}
    for name, parts in (("stdout", done.logs.stdout), ("stderr", done.logs.stderr)):
        text = "".join(parts)
        if text:
            record[name] = text[:MAX_RECORDED]
    if done.error is not None:
        record["error"] = f"{done.error.name}: {done.error.value}"[:MAX_RECORDED]
    return record
