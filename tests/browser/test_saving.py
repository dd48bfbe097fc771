"""Downloading one's work in JupyterLab: by the button in one click, and by the link of save_work()."""

from __future__ import annotations

import json
import zipfile

CODE = """import os
os.environ["LABKIT_PLACE"] = "binder"
import labkit as lk
open("mine.txt", "w").write("my own work")
open("large.bin", "wb").write(os.urandom(2_000_000))
"""


def own_notebook(visitor, *sources):
    """Open a notebook with these cells."""
    cells = [{"cell_type": "code", "id": f"c{number}", "metadata": {}, "source": source, "outputs": [],
              "execution_count": None} for number, source in enumerate(sources)]  # fmt: skip
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    whole = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    folder = visitor.lab.notebooks / "saving"
    folder.mkdir(exist_ok=True)
    (folder / "mine.ipynb").write_text(json.dumps(whole))
    visitor.arrive()
    front = visitor.page.evaluate("() => jupyterapp.shell.currentWidget.context.path")
    path = front.replace("00_start_here.ipynb", "saving/mine.ipynb")
    visitor.page.evaluate(
        "path => jupyterapp.commands.execute('docmanager:open', {path}).then(() => null)", path
    )
    visitor.wait_for_notebook("mine.ipynb")


def contents(download, tmp_path):
    path = tmp_path / download.suggested_filename
    download.save_as(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_one_click_on_the_button_downloads_everything(visitor, tmp_path):
    own_notebook(visitor, CODE, "lk.save_button()")
    visitor.run_all()
    button = visitor.cell(1).locator("button", has_text="Download my work")
    button.wait_for()
    assert "10 minutes without activity" in visitor.cell(1).inner_text()
    with visitor.page.expect_download() as waiting:
        button.click()
    found = contents(waiting.value, tmp_path)
    assert found["mine.txt"] == b"my own work"
    assert len(found["large.bin"]) == 2_000_000
    assert "mine.ipynb" in found
    visitor.wait_until(lambda: "3 files" in visitor.cell(1).inner_text(), "what was packed to be said")
    visitor.shot("save_button")


def test_the_link_of_save_work_downloads_it(visitor, tmp_path):
    own_notebook(visitor, CODE, "lk.save_work()")
    visitor.run_all()
    link = visitor.cell(1).locator("a", has_text="labkit-work-")
    link.wait_for()
    visitor.shot("save_work")
    with visitor.page.expect_download() as waiting:
        link.click()
    assert contents(waiting.value, tmp_path)["mine.txt"] == b"my own work"
