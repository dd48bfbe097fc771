"""Renders course and manual as a static site (``make site``): ``python docs/site/build.py [FOLDER]``.

Every notebook is run here, so that the site shows what this version computes. Figures stay alive (hover,
zoom, save), formulas are MathML, and BokehJS is copied next to the pages: the site fetches nothing from
anywhere. A cell that fails ends the build, and so does a link that leads nowhere.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

import nbformat
from bokeh.util.paths import bokehjs_path
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from pygments.formatters import HtmlFormatter

from labkit.cli.report import only_static, with_mathml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import manual  # noqa: E402 - it is next to this file
from links import broken_links  # noqa: E402

ROOT = HERE.parents[1]


_MANUAL = (
    "<p>The <a href='manual/index.html'>reference manual</a>: three ideas, every public name, the options of "
    "platforms, models, options and metrics, the formats of files; with a search.</p>"
)


@dataclass
class Page:
    """A rendered notebook: its file, its title, what a reader learns, and its body."""

    name: str
    title: str
    lead: str
    body: str


def main(folder: Path) -> None:
    """Build the site into a folder, which is replaced."""
    os.environ["BOKEH_RESOURCES"] = "inline"
    os.environ["LABKIT_PROGRESS"] = "off"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "static").mkdir(parents=True)
    pages = []
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        print(path.name, flush=True)
        pages.append(rendered(path))
    for number, page in enumerate(pages):
        around = [pages[number - 1] if number else None, *pages[number + 1 : number + 2]]
        (folder / f"{page.name}.html").write_text(whole(page, pages, around), encoding="utf-8")
    (folder / "index.html").write_text(whole(index(pages), pages, []), encoding="utf-8")
    style = (HERE / "style.css").read_text("utf-8")
    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    (folder / "static" / "style.css").write_text(f"{style}\n{colours}\n", encoding="utf-8")
    shutil.copy(Path(bokehjs_path()) / "js" / "bokeh.min.js", folder / "static")
    shutil.copy(ROOT / "labkit" / "plot" / "js" / "export.js", folder / "static")
    for picture in (ROOT / "docs").glob("*.png"):
        shutil.copy(picture, folder / "static")
    print(manual.build(folder))
    faults = broken_links(folder.resolve())
    if faults:
        sys.exit("\n".join(faults))
    print(folder / "index.html")


def rendered(path: Path) -> Page:
    """Run a notebook and return its page."""
    book = nbformat.read(path, as_version=4)
    first = nbformat.v4.new_code_cell((HERE / "in_kernel.py").read_text("utf-8"))
    book.cells.insert(0, first)
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    del book.cells[0]
    for cell in book.cells:
        if cell.cell_type == "markdown":
            cell.source = linked(with_mathml(cell.source))
        else:
            cell.outputs = only_static(cell.outputs)
    exporter = HTMLExporter(template_name="basic")
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = True
    exporter.exclude_anchor_links = True
    body, _ = exporter.from_notebook_node(book)
    text = book.cells[0].source
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    lead = re.sub(r"[*_`]", "", text.split("\n\n")[1].replace("\n", " "))
    return Page(path.stem, title[1] if title else path.stem, lead, body)


def linked(text: str) -> str:
    """Let links between notebooks lead to their pages."""
    return re.sub(r"\]\(([0-9]{2}_\w+)\.ipynb\)", r"](\1.html)", text)


def index(pages: list[Page]) -> Page:
    """Return the first page: what the README says, and the course."""
    readme = re.sub(r"docs/(\w+\.png)", r"static/\1", (ROOT / "README.md").read_text("utf-8"))
    intro, _, _ = readme.partition("## Folders")
    intro = re.sub(r"\[([^\]]+)\]\((?!static|https?:)[^)]*\)", r"\1", intro.partition("\n")[2])
    rows = "".join(f'<li><a href="{page.name}.html">{escape(page.title)}</a></li>' for page in pages)
    text = re.sub(r'<a class="anchor-link"[^>]*>[^<]*</a>', "", markdown2html_mistune(intro))
    lead, mark, rest = text.partition("</p>")
    body = f"<h1>labkit</h1>{lead}{mark}<h2>The course</h2><ul class='course'>{rows}</ul>{_MANUAL}{rest}"
    return Page("index", "labkit: engineering parallel algorithms", "", f"<div class='text'>{body}</div>")


def whole(page: Page, pages: list[Page], around: list[Page | None]) -> str:
    """Return a page with its head, its navigation and its neighbours."""
    links = "".join(_link(one, page) for one in [Page("index", "labkit", "", ""), *pages])
    links += '<a href="manual/index.html">Reference manual</a>'
    scripts = '<script src="static/bokeh.min.js"></script><script src="static/export.js"></script>'
    beside = "".join(_neighbours(around))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(page.title)}</title>\n"
        f'<link rel="stylesheet" href="static/style.css">\n{scripts if around else ""}\n</head>\n<body>\n'
        f"<nav aria-label='Course'>{links}</nav>\n<main>\n{page.body}\n{beside}</main>\n"
        "</body>\n</html>\n"
    )


def _link(one: Page, current: Page) -> str:
    here = ' aria-current="page"' if one.name == current.name else ""
    return f'<a href="{one.name}.html"{here}>{escape(one.title)}</a>'


def _neighbours(around: list[Page | None]) -> Iterator[str]:
    if around:
        yield "<p class='neighbours'>"
        for word, page in zip(("Before:", "Next:"), around, strict=False):
            if page is not None:
                yield f'<span>{word} <a href="{page.name}.html">{escape(page.title)}</a></span>'
        yield "</p>"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site")
