"""``labkit report``: one file with every picture, without scripts, and a sentence where that cannot be."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("nbconvert")
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from labkit.cli import main, report
from labkit.errors import DataError, MachineError
from tests.support.browser import needs_browser
from tests.support.refusals import raises_code

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()
WIDGET = {"application/vnd.jupyter.widget-view+json": {"model_id": "0", "version_major": 2}}


def written(tmp_path, *cells, name="work.ipynb"):
    path = tmp_path / name
    nbformat.write(new_notebook(cells=list(cells)), path)
    return path


def cell(source="1", count=1, *outputs):
    return new_code_cell(source, execution_count=count, outputs=list(outputs))


def test_one_file_holds_text_formulas_code_and_pictures_and_fetches_nothing(tmp_path):
    shown = new_output("display_data", {**WIDGET, "image/png": PICTURE, "text/plain": "Figure"})
    lost = new_output("display_data", {**WIDGET, "text/plain": "Explorer()"})
    path = written(
        tmp_path, new_markdown_cell("# My <sort>\nIt takes $p^2$ steps"), cell("a = 1", 1, shown, lost)
    )
    before = path.read_bytes()
    page = report.make_report(path).read_text("utf-8")
    assert "<title>My &lt;sort&gt;</title>" in page
    assert "<math" in page
    assert PICTURE in page
    assert page.count("Interactive: open the notebook") == 1
    assert "<script" not in page
    assert not re.findall(r"(?:src|href)=[\"']https?:", page)
    assert 'class="warn"' not in page
    assert path.read_bytes() == before


def test_progress_that_was_taken_back_leaves_no_empty_box(tmp_path):
    gone, kept = (new_output("display_data", {"text/plain": text}) for text in ("", "seven"))
    page = report.make_report(written(tmp_path, cell("a = 1", 1, gone, kept))).read_text("utf-8")
    assert page.count('class="output_area"') == page.count("seven") == 1


@pytest.mark.parametrize(
    ("cells", "warning"),
    [
        ([cell(count=None), cell()], "1 of 2 code cells were not run"),
        ([cell(count=2), cell(count=1)], "not run from top to bottom"),
        ([cell("1/0", 1, new_output("error", ename="ZeroDivisionError", evalue="", traceback=[]))], "1 of 1"),
    ],
)
def test_a_reader_is_told_what_was_not_run_or_failed(tmp_path, cells, warning):
    page = report.make_report(written(tmp_path, *cells)).read_text("utf-8")
    assert re.search(rf'<p class="warn">[^<]*{warning}', page)


@pytest.mark.slow
def test_cells_are_run_in_a_copy(tmp_path):
    path = written(tmp_path, new_code_cell("print(6 * 7)"))
    before = path.read_bytes()
    page = report.make_report(path, tmp_path / "out.html", is_run=True).read_text("utf-8")
    assert "42" in page
    assert path.read_bytes() == before
    with raises_code(DataError, "tool-failed", "cell 1", "bad.ipynb", "NameError"):
        report.make_report(written(tmp_path, new_code_cell("nothing"), name="bad.ipynb"), is_run=True)
    assert not (tmp_path / "bad.html").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [(None, "cannot be read: No such file"), ("{}", "is not a Jupyter notebook"), ("\x00", "is not a"),
     ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [7]}', "is not a Jupyter notebook")],
)  # fmt: skip
def test_what_is_no_notebook_is_refused_in_a_sentence(tmp_path, text, sentence, capsys):
    path = tmp_path / "x.ipynb"
    if text is not None:
        path.write_text(text)
    assert main(["report", str(path)]) == 3
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said


def test_other_endings_missing_browsers_and_full_disks_are_told(tmp_path, monkeypatch):
    path = written(tmp_path, cell())
    with raises_code(DataError, "unknown-format", "'a.docx'"):
        report.make_report(path, tmp_path / "a.docx")
    with raises_code(DataError, "unwritable-file"):
        report.make_report(path, tmp_path / "no" / "a.html")
    monkeypatch.setattr(report, "find_browser", lambda: None)
    with raises_code(MachineError, "missing-tool", "work.ipynb", "a.html"):
        report.make_report(path, tmp_path / "a.pdf")
    monkeypatch.setattr(report, "find_browser", lambda: "false")
    with raises_code(MachineError, "tool-failed"):
        report.make_report(path, tmp_path / "a.pdf")
    assert not (tmp_path / "a.pdf").exists()


@needs_browser
def test_a_pdf_is_printed_by_the_browser(tmp_path):
    made = report.make_report(written(tmp_path, new_markdown_cell("# Title"), cell()), tmp_path / "a.pdf")
    assert made.read_bytes().startswith(b"%PDF")


def test_a_pdf_is_asked_for_by_its_name_too(tmp_path, monkeypatch, capsys):
    asked = []

    def keep(notebook, target, **how):
        asked.append((notebook, target and str(target)))
        Path(target).write_bytes(b"")
        return Path(target)

    monkeypatch.setattr("labkit.cli.report.make_report", keep)
    notebook = tmp_path / "one.ipynb"
    assert main(["report", str(notebook), "--pdf"]) == 0
    assert main(["report", str(notebook), "--pdf", "-o", str(tmp_path / "two.PDF")]) == 0
    assert asked == [
        (str(notebook), str(tmp_path / "one.pdf")),
        (str(notebook), str(tmp_path / "two.PDF")),
    ]
    assert main(["report", str(notebook), "--pdf", "-o", "two.html"]) != 0
    assert "--pdf and -o two.html say two things" in capsys.readouterr().err
