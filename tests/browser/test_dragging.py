"""A point of the model explorer follows the mouse, however the drag begins."""

from __future__ import annotations

import json

import pytest

CELLS = ["import labkit as lk\ne = lk.explore.model()\ne", "# another cell\nx = 1"]

#: where the i-th point that can be moved is on the page
PLACE = """i => {
  let plot = null
  const look = (view) => {
    if (view.frame != null && view.model.x_range != null) plot = view
    for (const child of view.child_views ?? []) look(child)
  }
  for (const root of Object.values(Bokeh.index)) look(root)
  const source = plot.model.renderers.map((one) => one.data_source).findLast((one) => one.data.x.length < 20)
  const area = plot.canvas.events_el.getBoundingClientRect()
  return [area.x + plot.frame.x_scale.compute(source.get_array("x")[i]),
          area.y + plot.frame.y_scale.compute(source.get_array("y")[i])]
}"""

ASK = """async code => {
  const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel
  let said = ""
  const future = kernel.requestExecute({code})
  future.onIOPub = (message) => { if (message.header.msg_type === "stream") said += message.content.text }
  await future.done
  return said
}"""


@pytest.fixture
def explorer(visitor, lab):
    """Show the explorer in a notebook of its own."""
    cells = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": source, "outputs": [],
         "execution_count": None}
        for i, source in enumerate(CELLS)
    ]  # fmt: skip
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    path = lab.notebooks / "dragging.ipynb"
    path.write_text(json.dumps(notebook))
    visitor.arrive()
    visitor.page.evaluate("() => jupyterapp.commands.execute('docmanager:open', {path: 'dragging.ipynb'})")
    visitor.wait_for_notebook("dragging.ipynb")
    visitor.run_all()
    visitor.wait_for_canvas(0)
    yield visitor
    path.unlink()


def test_a_point_follows_however_the_drag_begins(explorer):
    page = explorer.page

    def points():
        return json.loads(page.evaluate(ASK, "import json; print(json.dumps(e.points[1].tolist()))"))

    for point, (hold_ms, mode) in enumerate([(0, "command"), (0, "edit"), (700, "command"), (700, "edit")]):
        page.evaluate(
            """mode => {
              const notebook = jupyterapp.shell.currentWidget.content
              notebook.activeCellIndex = 1
              notebook.mode = mode
            }""",
            mode,
        )
        before = points()
        x, y = page.evaluate(PLACE, point)
        page.mouse.move(x + 3, y + 2)
        page.mouse.down()
        page.wait_for_timeout(hold_ms)
        for step in range(1, 9):
            page.mouse.move(x + 3 + step, y + 2 - 5 * step)
        page.mouse.up()
        explorer.wait_until(lambda b=before, p=point: points()[p] > 1.5 * b[p], f"point {point} to be moved")
        moved = points()
        assert [i for i in range(len(moved)) if moved[i] != before[i]] == [point]
        assert page.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex") == 0
    explorer.shot("points_dragged")
    place = page.evaluate(PLACE, 5)
    after = points()
    page.mouse.move(place[0] - 20, place[1] - 40)  # beside every point: nothing is held
    page.mouse.down()
    page.mouse.move(place[0] - 20, place[1] + 40, steps=4)
    page.mouse.up()
    page.wait_for_timeout(500)
    assert points() == after
