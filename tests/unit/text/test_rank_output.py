"""What ranks printed, put together: nothing is lost silently, nothing escapes into the page."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.text.rank_output import MOST_LINES, blocks_of, printed_html, printed_text

pieces = st.lists(st.tuples(st.booleans(), st.text(min_size=1, max_size=30)), max_size=4)


class _Reader(HTMLParser):
    """Collects the text, and counts what is open."""

    def __init__(self):
        super().__init__()
        self.text, self.open, self.tags = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(html):
    reader = _Reader()
    reader.feed(html)
    assert reader.open == []
    assert reader.tags <= {"div", "pre", "span", "details", "summary"}
    return "".join(reader.text)


@settings(deadline=None, max_examples=150)
@given(st.lists(pieces, max_size=20))
def test_every_rank_that_printed_is_in_exactly_one_block(printed):
    blocks = blocks_of(printed)
    ranks = [rank for block in blocks for rank in block.ranks]
    assert sorted(ranks) == [rank for rank, one in enumerate(printed) if one]
    assert [block.ranks[0] for block in blocks] == sorted(block.ranks[0] for block in blocks)
    for block in blocks:
        assert all(tuple(printed[rank]) == block.pieces for rank in block.ranks)
    assert len({block.pieces for block in blocks}) == len(blocks)
    text = read(printed_html(blocks))
    for block in blocks:
        assert block.label in text
        for _, line in block.lines():
            assert line in text or "more ranks" in text


@given(st.integers(0, 3 * MOST_LINES))
def test_lines_that_are_left_out_are_counted(count):
    blocks = blocks_of([[(False, "".join(f"line {n}\n" for n in range(count)))]] if count else [])
    html, text = printed_html(blocks), printed_text(blocks)
    for form in (re.sub(r"<summary>.*?</summary>", "", html), text):
        shown = len(re.findall(r"line \d+", form))
        hidden = re.search(r"… ([\d,]+) more lines? in output\[0\]", form)
        assert shown + (int(hidden[1].replace(",", "")) if hidden else 0) == count


def test_standard_error_colors_and_cursors():
    (block,) = blocks_of(
        [[(False, "10%\r100%\n\x1b[31mred\x1b[0m\r\n"), (True, "bad <i>\n"), (False, "end")]]
    )
    assert block.lines() == [(False, "100%"), (False, "red"), (True, "bad <i>"), (False, "end")]
    assert printed_text([block]).splitlines() == [
        "rank 0 | 100%", "rank 0 | red", "rank 0 ! bad <i>", "rank 0 | end",
    ]  # fmt: skip
    html = printed_html([block])
    assert html.count("<pre") == html.count("word-break:normal") > 0  # else JupyterLab breaks words
    assert "bad &lt;i&gt;" in html
    assert "stderr" in unescape(html)


def test_results_are_told_from_output():
    blocks = blocks_of([[(False, "6")], [(False, "6")]], is_result=True)
    assert printed_text(blocks) == "ranks 0-1 = 6"
    assert "= 6" in re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", printed_html(blocks)))
