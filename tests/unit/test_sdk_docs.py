"""The page of the SDK: it is what the code makes of it, and names all that the package offers."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import paddock
from cases import for_each
from paddock.doors.machine import sandbox

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/sdk.md").read_text()


def test_page_is_current() -> None:
    made = runpy.run_path(str(ROOT / "scripts/sdk_docs.py"))["page"]()
    assert made == PAGE, "docs/sdk.md is not current; write it with scripts/sdk-docs"


@for_each("name", paddock.__all__)
def test_page_documents_every_name_of_the_package(name: str) -> None:
    assert re.search(rf"^#+ {name}$|^\| `{name}` \|", PAGE, re.MULTILINE), name


@for_each(
    "face",
    [face for _, face in inspect.getmembers(sandbox, inspect.isclass)
     if face.__module__ == sandbox.__name__],
)  # fmt: skip
def test_page_documents_every_call_of_the_sdk(face: type) -> None:
    assert f"\n### {face.__name__}\n" in PAGE
    for name in dir(face):
        if not name.startswith("_"):
            assert re.search(rf"^#### \w[\w.]*\.{name}$", PAGE, re.MULTILINE), (face, name)
