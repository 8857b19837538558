"""What displayed objects and errors become on their way out: bounded bundles, plain text.

A part of `kernel.py`. Standard library only, Python 3.10 or newer, nothing of Paddock.
"""

from __future__ import annotations

import base64
import builtins
import importlib.machinery
import json
import os
import re
from typing import Any

import kernel_link

MAX_ERROR_CHARS = 256 << 10
MAX_VALUE_BYTES = 16 << 20  # one representation of one displayed object
MAX_BUNDLE_BYTES = 48 << 20  # all of them: the message must stay under its own limit
MAX_STRUCTURED_BYTES = 4 << 20  # JSON that is not text costs its reader many times its size
MAX_METADATA_BYTES = 64 << 10
MAX_DEPTH = 50
MAX_INT_BITS = 4096  # Python refuses to print much longer ones
_HERE = os.path.dirname(os.path.abspath(__file__))
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
INLINE_BACKEND = "module://matplotlib_inline.backend_inline"


def publish(link: Any, kind: str, data: dict[str, Any], metadata: Any) -> None:
    """Sends one bundle: a `display`, or the `result` that a cell's last expression is."""
    if not link.is_ours:
        print(data.get("text/plain", ""))  # a fork child has only its output to speak with
        return
    envelope = {"id": link.cell, "type": kind, "is_main_result": kind == "result", "metadata": {}}
    extra = plain(metadata or {})
    if len(json.dumps(extra)) <= MAX_METADATA_BYTES:
        envelope["metadata"] = extra
    head = kernel_link.to_json(envelope)
    link.send_body(head[:-1] + b',"data":' + encode_bundle(data) + b"}")


def encode_bundle(data: dict[str, Any]) -> bytes:
    """The JSON of a mime bundle; what is too large is replaced by a note in its text/plain."""
    parts: dict[str, bytes] = {}
    notes: list[str] = []
    room = {True: MAX_BUNDLE_BYTES, False: MAX_STRUCTURED_BYTES}
    for mime, value in data.items():
        value = plain(value)
        if not isinstance(value, str) and not str(mime).endswith("json"):
            value = json.dumps(value)
        part, is_text = kernel_link.to_json(value), isinstance(value, str)
        if len(part) > min(room[is_text], MAX_VALUE_BYTES):
            notes.append(f"[{mime} left out: {len(part)} bytes are more than can be shown]")
            continue
        room[is_text] -= len(part)
        parts[str(mime)] = part
    if notes:
        text = [json.loads(parts["text/plain"])] if "text/plain" in parts else []
        parts["text/plain"] = kernel_link.to_json("\n".join(text + notes))
    pairs = (kernel_link.to_json(mime) + b":" + part for mime, part in parts.items())
    return b"{" + b",".join(pairs) + b"}"


def plain(value: Any, depth: int = 0) -> Any:
    """The nearest thing to `value` that JSON can say."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, int):
        return value if value.bit_length() < MAX_INT_BITS else hex(value)
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if depth >= MAX_DEPTH:
        return repr(value)
    if isinstance(value, dict):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, depth + 1) for item in value]
    if callable(getattr(value, "tolist", None)):  # numpy's scalars and arrays
        return plain(value.tolist(), depth + 1)
    return repr(value)


class PlotHook:
    """Makes a cell's figures come out inline, by naming the backend while matplotlib loads.

    Only while it loads: a program that a cell starts would inherit the variable, and could not
    import that backend, because the extra site is on the path of this process alone.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "matplotlib":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            chosen = os.environ.setdefault("MPLBACKEND", INLINE_BACKEND)
            try:
                load(module)
            finally:
                if chosen == INLINE_BACKEND:
                    del os.environ["MPLBACKEND"]

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


# ---- errors --------------------------------------------------------------------------------------


def describe(error: BaseException, traceback: str) -> dict[str, str]:
    """The fields of an error message. An exception can be made so that asking it fails."""
    try:
        name, value = f"{type(error).__name__}", str(error)
    except BaseException:
        name, value = "Exception", "<an exception that cannot say what it is>"
    return {"name": cut(name), "value": cut(value), "traceback": cut(traceback)}


def cut(text: str) -> str:
    """Without colours, and with the middle left out when it is too long."""
    text = _ANSI.sub("", text)
    if len(text) <= MAX_ERROR_CHARS:
        return text
    half = MAX_ERROR_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def has_group(error: BaseException | None) -> bool:
    """Whether the error, or one that it came from, is an exception group."""
    groups = getattr(builtins, "BaseExceptionGroup", ())
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, groups):
            return True
        seen.add(id(error))
        error = error.__context__
    return False


def hide_own_frames(error: BaseException | None) -> None:
    """Our files say nothing to who reads a cell's traceback."""
    step: Any = getattr(error, "__traceback__", None)
    while step is not None:
        while step.tb_next is not None and _is_own(step.tb_next):
            step.tb_next = step.tb_next.tb_next
        step = step.tb_next


def plain_traceback(error: Any) -> str:
    """Python's own form, without the frames that led into the cell."""
    import traceback

    step = error.__traceback__
    inside = f"{os.sep}IPython{os.sep}"
    while step is not None and (_is_own(step) or inside in step.tb_frame.f_code.co_filename):
        step = step.tb_next
    return "".join(traceback.format_exception(type(error), error, step))


def _is_own(step: Any) -> bool:
    return bool(os.path.dirname(step.tb_frame.f_code.co_filename) == _HERE)
