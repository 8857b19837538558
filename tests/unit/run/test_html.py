"""Pages: whatever an agent wrote stays text."""

from __future__ import annotations

from html.parser import HTMLParser

from cases import for_each
from paddock.run.html import (
    MAX_BLOCK,
    MAX_TEXT,
    Markup,
    TableRow,
    badge,
    beside,
    block,
    code,
    details,
    escaped,
    joined,
    page,
    paragraph,
    section,
    table,
)

HOSTILE = [
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title></head><body onload=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</pre></details><iframe src=//evil.example>",
    "<!--",
    "]]>",
    "&lt;script&gt;",
]


class Tags(HTMLParser):
    """What a browser would see of a page: tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def everything(text: str) -> str:
    """A page in which the text is everywhere that a text can be."""
    parts = [
        text,
        section(text, text, paragraph(text, code(text), tone="bad"), badge(text)),
        table([text], [[text], TableRow([text, code(text)], "bad")]),
        details(text, block(text), block({text: [text]}), beside(text, text)),
        joined([text, text], text),
    ]
    return page(text, parts, note=text)


@for_each("text", HOSTILE)
def test_hostile_text_adds_no_tag_and_no_attribute(text: str) -> None:
    found, harmless = Tags(everything(text)), Tags(everything("harmless"))
    assert found.tags == harmless.tags
    assert found.attributes == harmless.attributes
    assert text in "".join(found.texts)  # it is there, as text


def test_page_loads_and_runs_nothing() -> None:
    found = Tags(everything("x"))
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    assert not {"src", "href", "onclick", "onload", "style"} & found.attributes
    whole = everything("x")
    assert "default-src 'none'" in whole
    assert "http://" not in whole
    assert "https://" not in whole
    assert "url(" not in whole
    assert "@import" not in whole


def test_what_cannot_be_seen_or_turns_a_line_around_is_spelled_out() -> None:
    assert escaped("a\u202eb\u200bc\x1b[31m\x00") == "a\\u202eb\\u200bc\\x1b[31m\\x00"
    assert "\u202e" not in everything("evil\u202etxt.exe")


def test_half_of_a_surrogate_pair_can_be_written() -> None:
    everything("\ud800").encode()


def test_texts_are_bounded_and_say_so() -> None:
    long = "x" * 10_000_000
    assert len(escaped(long)) < MAX_TEXT + 100
    assert len(block(long)) < MAX_BLOCK + 200
    assert len(block("\n" * 1_000_000)) < MAX_BLOCK + 200
    assert "cut" in block(long)
    assert len(everything(long)) < 40 * MAX_BLOCK


def test_markup_is_not_escaped_again_and_text_is() -> None:
    assert paragraph(Markup("<b>"), "<b>") == "<p><b> &lt;b&gt;</p>"


def test_lines_of_a_block_stay_lines() -> None:
    assert block("a\nb") == "<pre>a\nb</pre>"
