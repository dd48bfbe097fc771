"""Pictures survive: a saved notebook, opened again without its kernel or exported, shows every figure."""

from __future__ import annotations

import base64
import json

from nbconvert import HTMLExporter

WIDGET = "application/vnd.jupyter.widget-view+json"
CELLS = (
    "import labkit as lk\nverdict = lk.judge([4, 8, 16, 32, 64], [3, 5, 9, 17, 33], 'p', unit='s')",
    "lk.plot.scaling(verdict)",
    "lk.explore.collective()",
)


def own_notebook(visitor):
    cells = [{"cell_type": "code", "id": f"c{number}", "metadata": {}, "source": source, "outputs": [],
              "execution_count": None} for number, source in enumerate(CELLS)]  # fmt: skip
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    folder = visitor.lab.notebooks / "stills"
    folder.mkdir(exist_ok=True)
    file = folder / "mine.ipynb"
    file.write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))
    visitor.arrive()
    front = visitor.page.evaluate("() => jupyterapp.shell.currentWidget.context.path")
    path = front.replace("00_start_here.ipynb", "stills/mine.ipynb")
    open_again(visitor, path)
    return file, path


def open_again(visitor, path):
    visitor.page.evaluate(
        "path => jupyterapp.commands.execute('docmanager:open', {path}).then(() => null)", path
    )
    visitor.wait_for_notebook("mine.ipynb")


def test_a_saved_notebook_shows_its_figures_without_a_kernel(visitor):
    file, path = own_notebook(visitor)
    visitor.run_all()
    for cell in (1, 2):
        visitor.wait_for_canvas(cell)
    visitor.save()

    def outputs():
        return [one["data"] for cell in json.loads(file.read_text())["cells"][1:] for one in cell["outputs"]
                if "data" in one]  # fmt: skip

    visitor.wait_until(lambda: len(outputs()) == 2, "the outputs to be in the file")
    for data in outputs():
        assert WIDGET not in data
        assert base64.b64decode(data["image/png"])[:4] == b"\x89PNG"
    assert visitor.canvases(1) > 0, "saving took the live figure away"

    page, _ = HTMLExporter().from_filename(str(file))
    assert page.count('src="data:image/png') == 2

    visitor.page.evaluate("""async () => {
        await jupyterapp.serviceManager.sessions.shutdownAll()
        await jupyterapp.commands.execute('application:close')
    }""")
    visitor.page.evaluate(
        "path => jupyterapp.commands.execute('docmanager:open', {path, kernel: {shouldStart: false}})"
        ".then(() => null)",
        path,
    )
    for cell in (1, 2):
        visitor.wait_until(lambda c=cell: visitor.cell(c).locator("img").count() == 1, "the still picture")
    assert "Error displaying widget" not in visitor.page.inner_text("body")
    visitor.shot("stills")
