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
  for (const root of Bokeh.index.roots) if (root.el.isConnected) look(root)
  const source = plot.model.renderers.map((one) => one.data_source).findLast((one) => one.data.x.length < 20)
  const area = plot.canvas.events_el.getBoundingClientRect()
  return [area.x + plot.frame.x_scale.compute(source.get_array("x")[i]),
          area.y + plot.frame.y_scale.compute(source.get_array("y")[i])]
}"""


@pytest.fixture
def explorer(show_cells):
    """Show the explorer in a notebook of its own."""
    return show_cells("dragging.ipynb", CELLS)


def test_a_point_follows_however_the_drag_begins(explorer):
    page = explorer.page

    def points():
        return json.loads(explorer.ask("import json; print(json.dumps(e.points[1].tolist()))"))

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
