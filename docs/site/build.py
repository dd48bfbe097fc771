"""Renders course, documentation and manual as one static site (``make site``).

``python docs/site/build.py [FOLDER] [--live]``: one Sphinx project with one search and one table of contents.
Notebooks are shown with their stored outputs; with ``--live`` they are run first, and their figures can be
zoomed and saved. The pages fetch nothing over the network: formulas are MathML, and BokehJS is copied. A
warning of Sphinx, a cell that fails, or a broken link ends the build.
"""

from __future__ import annotations

import argparse
import inspect
import io
import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from bokeh.util.paths import bokehjs_path
from nbclient import NotebookClient
from nbconvert.filters import ansi2html

import labkit
from labkit.cli.report import only_static, with_mathml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import manual  # noqa: E402 - it is next to this file
from links import broken_links  # noqa: E402

ROOT = HERE.parents[1]
#: the pages of docs/ in the table of contents, by caption; those of other folders follow
CHAPTERS = {
    "Teaching": ("teaching", "syllabus"),
    "Ideas": (
        "one-program-two-machines", "large-simulations", "computation", "rows", "verdicts",
        "when-one-machine-is-too-small",
    ),
    "Case studies": ("case-studies", "papers", "public-programs", "synthesis", "alltoall-over-cabinets"),
    "Background": ("conformance", "performance", "readers", "smpi-collectives"),
}  # fmt: skip
#: fences that no cell contains
_FENCE = "`" * 8


def main(folder: Path, is_live: bool = False) -> None:
    """Build the site in a folder, which is replaced."""
    from sphinx.application import Sphinx

    sources = ROOT / "build" / "site-sources"
    shutil.rmtree(sources, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    write_sources(sources, is_live)
    scripts = ["bokeh.min.js", "export.js"] if is_live else []
    warnings = io.StringIO()
    app = Sphinx(
        str(sources), None, str(folder), str(sources / ".doctrees"), "html",
        confoverrides=SETTINGS | {"html_js_files": scripts}, status=None, warning=warnings, freshenv=True,
    )  # fmt: skip
    app.connect("autodoc-skip-member", _is_no_name)
    app.build()
    if said := warnings.getvalue().strip():
        sys.exit(f"the site has faults:\n{said}")
    if faults := broken_links(folder.resolve()):
        sys.exit("\n".join(faults))
    print(folder / "index.html")


def _is_no_name(app: Any, what: str, name: str, thing: Any, is_skipped: bool, options: Any) -> bool | None:
    """Leave out what is no name of a class: the default of a field, which is a method of something else."""
    return True if inspect.isbuiltin(thing) else None


SETTINGS: dict[str, Any] = {
    "project": "labkit", "author": "The labkit developers", "release": labkit.__version__, "language": "en",
    "extensions": ["sphinx.ext.autodoc", "numpydoc", "myst_parser"],
    "html_theme": "alabaster",
    "html_theme_options": {
        "description": "Engineering parallel algorithms", "fixed_sidebar": True, "page_width": "76rem",
        "body_max_width": "57rem", "code_font_size": "0.8em", "sidebar_width": "18rem",
        "font_family": "system-ui, 'DejaVu Sans', sans-serif", "head_font_family": "system-ui, sans-serif",
        "code_font_family": "'DejaVu Sans Mono', monospace", "show_powered_by": False, "show_related": True,
    },
    "html_sidebars": {"**": ["about.html", "searchbox.html", "navigation.html"]},
    "html_static_path": ["_static"], "html_css_files": ["style.css"], "html_title": "labkit",
    "html_show_sourcelink": False, "html_copy_source": False, "html_show_sphinx": False,
    "html_show_copyright": False,
    "html_search_scorer": str(HERE / "search.js"),
    "html_show_search_summary": False,  # a page that is opened from a disk may not fetch others
    "numpydoc_show_class_members": False, "numpydoc_class_members_toctree": False,
    "default_role": "literal", "autodoc_typehints": "none", "autodoc_member_order": "bysource",
    "myst_heading_anchors": 4, "exclude_patterns": [".doctrees"], "root_doc": "index",
    "suppress_warnings": ["misc.highlighting_failure", "myst.header"],
}  # fmt: skip


def write_sources(folder: Path, is_live: bool = False) -> None:
    """Write all pages as Sphinx reads them, in the folders that they have in the repository."""
    static = folder / "_static"
    static.mkdir(parents=True)
    shutil.copy(HERE / "style.css", static)
    if is_live:
        shutil.copy(Path(bokehjs_path()) / "js" / "bokeh.min.js", static)
        shutil.copy(ROOT / "labkit" / "plot" / "js" / "export.js", static)
    books = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    texts = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages = {path.relative_to(ROOT).as_posix() for path in (*books, *texts)}
    for picture in (*(ROOT / "docs").glob("*.png"), *(ROOT / "docs").glob("*.svg")):
        pages.add(picture.relative_to(ROOT).as_posix())
        _copy(picture, folder)
    for path in texts:
        _write(folder, path, linked(with_mathml(path.read_text("utf-8")), path, pages))
    with ThreadPoolExecutor(2 if is_live else 1) as pool:
        for path, text in zip(
            books, pool.map(lambda path: notebook(path, pages, is_live), books), strict=True
        ):
            _write(folder, path.with_suffix(".md"), text)
    manual.write_sources(folder / "manual")
    (folder / "index.md").write_text(index(books, pages), encoding="utf-8")


def _copy(path: Path, folder: Path) -> None:
    target = folder / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)


def _write(folder: Path, path: Path, text: str) -> None:
    target = folder / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def linked(text: str, path: Path, pages: set[str]) -> str:
    """Let links lead to the site's pages; a link to any other file becomes its text."""
    here = path.parent.relative_to(ROOT).as_posix()

    def replaced(found: re.Match[str]) -> str:
        whole, mark, words, target = found[0], found[1], found[2], found[3]
        file, _, place = target.partition("#")
        if re.match(r"\w+:", target) or not file:
            return whole
        name = posixpath.normpath(posixpath.join(here, file))
        if name not in pages:
            return words
        file = re.sub(r"\.ipynb$", ".md", file)
        return f"{mark}[{words}]({file}{'#' + place if place else ''})"

    return re.sub(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)", replaced, text)


def notebook(path: Path, pages: set[str], is_live: bool) -> str:
    """Return a notebook as a page in Markdown, its outputs as HTML."""
    book = nbformat.read(path, as_version=4)
    if is_live:
        _run(book, path)
    parts = []
    for cell in book.cells:
        if cell.cell_type == "markdown":
            parts.append(linked(with_mathml(cell.source), path, pages))
        elif cell.source.strip():
            parts.append(f"{_FENCE}{{code-block}} ipython3\n{cell.source}\n{_FENCE}")
            shown = "\n".join(filter(None, map(as_html, only_static(cell.outputs))))
            if shown:
                parts.append(f"{_FENCE}{{raw}} html\n<div class='output'>{shown}</div>\n{_FENCE}")
    return "\n\n".join(parts) + "\n"


def _run(book: nbformat.NotebookNode, path: Path) -> None:
    """Run a notebook with figures that show themselves as parts of a page."""
    os.environ["BOKEH_RESOURCES"] = "inline"
    os.environ["LABKIT_PROGRESS"] = "off"
    book.cells.insert(0, nbformat.v4.new_code_cell((HERE / "in_kernel.py").read_text("utf-8")))
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    del book.cells[0]


def as_html(output: Any) -> str:
    """Return an output of a cell as HTML: the richest kind that it has."""
    if output.output_type == "stream":
        return f"<pre>{ansi2html(output.text)}</pre>"
    if output.output_type == "error":
        return f"<pre>{ansi2html(chr(10).join(output.traceback))}</pre>"
    data = {kind: "".join(value) for kind, value in output.data.items() if isinstance(value, str | list)}
    for kind in ("text/html", "image/svg+xml"):
        if kind in data:
            return data[kind]
    plain = data.get("text/plain", "")
    if "image/png" in data:
        width = output.metadata.get("image/png", {}).get("width")
        size = f' width="{width}"' if width else ""
        source = f"data:image/png;base64,{data['image/png'].strip()}"
        return f'<img alt="{escape(plain, quote=True)}" src="{source}"{size}>'
    return f"<pre>{ansi2html(plain)}</pre>" if plain.strip() else ""


def index(books: Iterable[Path], pages: set[str]) -> str:
    """Return the first page: what the README says, and the table of contents."""
    readme = ROOT / "README.md"
    intro, _, _ = readme.read_text("utf-8").partition("## Folders")
    parts = [
        linked(intro, readme, pages),
        "## Contents",
        *_tree("The course", (f"notebooks/{path.stem}" for path in books)),
    ]
    listed = {name for names in CHAPTERS.values() for name in names}
    chapters = dict(CHAPTERS)
    chapters["Background"] += tuple(
        sorted(path.stem for path in (ROOT / "docs").glob("*.md") if path.stem not in listed)
    )
    for caption, names in chapters.items():
        parts += _tree(caption, (f"docs/{name}" for name in names))
    for caption, names in manual.contents().items():
        parts += _tree(caption, (f"manual/{name}" for name in names))
    developing = sorted(
        f"docs/developing/{path.stem}" for path in (ROOT / "docs" / "developing").glob("*.md")
    )
    parts += _tree("Developing", ["CONTRIBUTING", *developing])
    return "\n".join([*parts, "{ref}`genindex`"]) + "\n"


def _tree(caption: str, names: Iterable[str]) -> Iterator[str]:
    yield from ("", "```{toctree}", f":caption: {caption}", ":maxdepth: 1", "", *names, "```", "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the site.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    parser.add_argument(
        "--live", action="store_true", help="run the notebooks, for figures that can be zoomed"
    )
    arguments = parser.parse_args()
    main(arguments.folder, arguments.live)
