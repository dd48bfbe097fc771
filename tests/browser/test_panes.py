"""A click on a pane chooses: the other panes follow, in the kernel and on the page."""

from __future__ import annotations

PROGRAM = """import labkit as lk
def program(comm):
    with lk.phase("work"):
        lk.compute(seconds=1e-3 * (1 + (comm.rank == 2)))
        comm.barrier()
e = lk.explore.waits(lk.run(program, ranks=4, on="torus:2x2", trace=True))
e"""

#: where the row of a pane that says so is on the page, and what the rows of all panes say
ROW = """([pane, text]) => {
  const plots = []
  const look = (view) => {
    if (view.frame != null && view.model.x_range != null) plots.push(view)
    for (const child of view.child_views ?? []) look(child)
  }
  for (const root of Bokeh.index.roots) if (root.el.isConnected) look(root)
  for (const plot of plots) {
    const glyphs = plot.model.renderers.find((one) => one.name == pane)
    if (glyphs == null) continue
    const column = pane == "machine" ? "tip" : "text"
    const texts = [...glyphs.data_source.get_array(column)]
    const row = texts.findIndex((one) => one.includes(text))
    const area = plot.canvas.events_el.getBoundingClientRect()
    const x = pane == "machine" ? glyphs.data_source.get_array("x")[row] : 40
    return {texts, x: area.x + plot.frame.x_scale.compute(x),
            y: area.y + plot.frame.y_scale.compute(glyphs.data_source.get_array("y")[row])}
  }
}"""


def test_panes_follow_clicks(show_cells):
    seen = show_cells("panes.ipynb", [PROGRAM])

    def rows(pane, text=""):
        return seen.page.evaluate(ROW, [pane, text])

    def click(pane, text):
        place = rows(pane, text)
        seen.page.mouse.click(place["x"], place["y"])

    click("metrics", "wait at barrier")
    seen.wait_until(lambda: "3 ms  program" in rows("paths")["texts"], "the call paths to follow")
    assert seen.ask("print(e.metric.value)").strip() == "wait_at_barrier"
    assert rows("machine")["texts"][2] == "host 2, rank 2: 0 s"
    click("paths", "work")
    seen.wait_until(lambda: seen.ask("print(e.path.value)").strip() == "1", "the path to be chosen")
    seen.page.wait_for_timeout(500)  # else it is the same click
    click("paths", "work")  # once more: what is in it is folded
    seen.wait_until(lambda: len(rows("paths")["texts"]) == 2, "the path to be folded")
    click("machine", "rank 2")
    seen.wait_until(
        lambda: any("0 s  wait at barrier" in one for one in rows("metrics")["texts"]), "one rank"
    )
    seen.shot("panes_clicked")
