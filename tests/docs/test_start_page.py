"""The start page and the teachers' list name every notebook of the course."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]


def test_every_notebook_is_linked_from_the_start_page_by_its_title() -> None:
    names = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    start, *others = (nbformat.read(ROOT / "notebooks" / name, as_version=4) for name in names)
    titles = [re.sub("^# ", "", book.cells[0].source.splitlines()[0]) for book in others]
    linked = re.findall(r"^\| \[(.+?)\]\((.+?)\) \|", start.cells[0].source, re.MULTILINE)
    assert linked == list(zip(titles, names[1:], strict=True))
    listed = re.findall(
        r"^\| (\d+\. .+?) \|", (ROOT / "docs" / "teaching.md").read_text("utf-8"), re.MULTILINE
    )
    assert listed == titles
