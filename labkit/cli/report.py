"""``labkit report notebook.ipynb``: a notebook as one HTML or PDF file, ready to hand in."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import labkit
from labkit.errors import DataError, LabkitError, MachineError
from labkit.plot.figure import find_browser
from labkit.process.folders import private_folder
from labkit.text.files import notebook_text, replace_file, require_file
from labkit.text.html import render

if TYPE_CHECKING:
    import nbformat

__all__ = ["configure", "execute", "only_static", "with_mathml"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit report``."""
    parser.usage = "labkit report NOTEBOOK [--pdf] [-o FILE.html|FILE.pdf] [--run]"
    add = parser.add_argument
    add("notebook", help="the .ipynb file; it is not changed")
    add("-o", "--output", metavar="FILE", help="an .html or .pdf file (default: HTML, next to the notebook)")
    add("--pdf", action="store_true", help="a PDF; the same as -o FILE.pdf")
    add("--run", action="store_true", help="run all cells first; else the stored outputs are shown")
    add("--timeout", type=float, default=600.0, metavar="SECONDS", help="limit of a cell, with --run (600)")


def execute(arguments: argparse.Namespace) -> int:
    """Write the report, and say where it is."""
    missing = [name for name in ("nbconvert", "nbclient") if importlib.util.find_spec(name) is None]
    if missing:
        raise LabkitError(
            f"{missing[0]} is missing; install it with: python -m pip install 'labkit[lab]'",
            code="missing-package",
        )
    target = arguments.output
    if arguments.pdf:
        target = target or Path(arguments.notebook).with_suffix(".pdf")
        if Path(target).suffix.lower() != ".pdf":
            raise DataError(
                f"--pdf and -o {target} say two things; leave --pdf out, or name a .pdf file",
                code="conflicting-options",
            )
    path = make_report(arguments.notebook, target, is_run=arguments.run, timeout_s=arguments.timeout)
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


# A notebook as one file to hand in: HTML or PDF, every picture inside, nothing fetched from anywhere.


#: the widgets' side of an output has nobody to talk to on a page
_WIDGET = "application/vnd.jupyter.widget-view+json"
_GONE = "<p class='gone'>Interactive: open the notebook to use it.</p>"
_PDF_LIMIT_S = 120.0


def make_report(
    notebook: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    is_run: bool = False,
    timeout_s: float = 600.0,
) -> Path:
    """Write a notebook as one file."""
    source = Path(notebook)
    path = Path(target) if target is not None else source.with_suffix(".html")
    if path.suffix.lower() not in (".html", ".htm", ".pdf"):
        raise DataError(f"a report is an .html or a .pdf file; got {path.name!r}", code="unknown-format")
    is_pdf = path.suffix.lower() == ".pdf"
    browser = find_browser() if is_pdf else None
    if is_pdf and browser is None:
        raise MachineError(
            "a PDF needs Chromium or Chrome, and none was found; write HTML, open it in a browser and print "
            f"it to a file: labkit report {source.name} -o {path.with_suffix('.html').name}",
            code="missing-tool",
        )
    book, digest = _read(source)
    if is_run:
        _run(book, source, timeout_s)
    text = report_html(book, source.name, digest)
    try:
        if browser is None:
            replace_file(path, text)
        else:
            print_pdf(text, path, browser)
    except OSError as error:
        raise DataError(
            f"the report cannot be written to {str(path)!r}: {error.strerror or error}",
            code="unwritable-file",
        ) from error
    return path


def _read(path: Path) -> tuple[nbformat.NotebookNode, str]:
    import nbformat

    require_file(path)
    try:
        raw = path.read_bytes()
        book = nbformat.reads(notebook_text(raw), as_version=4)
        nbformat.validate(book)
    except OSError as error:
        raise DataError(
            f"the notebook {str(path)!r} cannot be read: {error.strerror or error}", code="unreadable-file"
        ) from error
    except Exception as error:  # a ValueError of several kinds, or one of nbformat's own
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise DataError(
            f"{str(path)!r} is not a Jupyter notebook: {reason}", code="malformed-file"
        ) from error
    return book, hashlib.sha256(raw).hexdigest()


def _run(book: nbformat.NotebookNode, path: Path, timeout_s: float) -> None:
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    client = NotebookClient(
        book, timeout=timeout_s, resources={"metadata": {"path": str(path.resolve().parent)}}
    )
    try:
        client.execute()
    except CellExecutionError as error:
        number = next((c.execution_count for c in book.cells if _failure(c) is not None), None)
        raise DataError(
            f"cell {number} of {path.name} fails, so no report was written: {error.ename}: "
            f"{error.evalue.splitlines()[0][:200] if error.evalue else ''}",
            code="tool-failed",
        ) from error
    except CellTimeoutError as error:
        raise DataError(
            f"a cell of {path.name} took more than {timeout_s:g} s; raise --timeout", code="time-limit"
        ) from error


def report_html(book: nbformat.NotebookNode, name: str, digest: str = "") -> str:
    """Return a notebook as one page."""
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]

    warnings = _warnings(book)
    for cell in book.cells:
        if cell.cell_type == "markdown":
            cell.source = with_mathml(cell.source)
        elif cell.cell_type == "code":
            cell.outputs = only_static(cell.outputs)
    exporter: Any = HTMLExporter(  # type: ignore[no-untyped-call]
        template_name="basic"
    )
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = exporter.exclude_anchor_links = True
    body, _ = exporter.from_notebook_node(book)
    heads = (re.search(r"^# (.+)$", c.source, re.MULTILINE) for c in book.cells if c.cell_type == "markdown")
    title = next((found[1] for found in heads if found), Path(name).stem)
    written = f"{name}, written by labkit {labkit.__version__}"
    return render(
        "jupyter/templates/report.html.j2",
        title=title,
        body=body,
        warnings=warnings,
        colors=HtmlFormatter(style="default").get_style_defs(".highlight"),
        footer=f"{written}, SHA-256 {digest}" if digest else written,
    )


def _warnings(book: nbformat.NotebookNode) -> list[str]:
    """List the problems of a report: cells that were not run, ran out of order, or failed."""
    cells = [cell for cell in book.cells if cell.cell_type == "code" and cell.source.strip()]
    counts = [cell.execution_count for cell in cells]
    found = []
    missing = sum(count is None for count in counts)
    if missing:
        found.append(f"{missing} of {len(cells)} code cells were not run: labkit report --run runs them all.")
    known = [count for count in counts if count is not None]
    if known != sorted(known):
        found.append("The cells were not run from top to bottom: results may depend on the order.")
    failed = sum(_failure(cell) is not None for cell in cells)
    if failed:
        found.append(f"{failed} of {len(cells)} code cells ended with an error.")
    return found


def _failure(cell: Any) -> object:
    return next((one for one in cell.get("outputs", ()) if one.output_type == "error"), None)


def only_static(outputs: Sequence[Any]) -> list[object]:
    """Return a cell's outputs without widgets: their still pictures, or else a note in their place.

    Progress that has been taken back is left out: an empty text.
    """
    kept = []
    for output in outputs:
        data = output.get("data", {})
        if {*data} == {"text/plain"} and not "".join(data["text/plain"]).strip():
            continue
        if _WIDGET in data:
            del data[_WIDGET]
            if not {"text/html", "image/png", "image/svg+xml"} & {*data}:
                data["text/html"] = _GONE
        kept.append(output)
    return kept


def with_mathml(text: str) -> str:
    """Turn formulas between dollars into MathML, which browsers show without a script; not inside code."""
    parts = re.split(r"(```.*?```|`[^`\n]*`)", text, flags=re.DOTALL)
    return "".join(part if part.startswith("`") else _formulas(part) for part in parts)


def _formulas(text: str) -> str:
    try:
        from latex2mathml.converter import convert
    except ImportError:  # the formulas stay as they were typed
        return text
    text = re.sub(r"\$\$(.+?)\$\$", lambda found: convert(found[1], display="block"), text, flags=re.DOTALL)
    text = re.sub(r"\$([^$\n]+?)\$", lambda found: convert(found[1]), text)
    return text.replace("<mi>log</mi>", '<mi>log</mi><mspace width="0.17em"/>')


def print_pdf(page: str, target: Path, browser: str) -> None:
    """Print a page as PDF by a browser without a screen."""
    with private_folder() as folder:
        source, made = folder / "report.html", folder / "report.pdf"
        source.write_text(page, encoding="utf-8")
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--no-sandbox",
            "--no-pdf-header-footer",
            f"--user-data-dir={folder}/profile",
            f"--print-to-pdf={made}",
            source.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_PDF_LIMIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MachineError(
                f"{browser} could not print the report: {error}", code="tool-failed"
            ) from error
        if done.returncode or not made.exists():
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1][:200]
            raise MachineError(f"{browser} could not print the report: {last}", code="tool-failed")
        shutil.copyfile(made, target)
