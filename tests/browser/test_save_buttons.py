"""A figure's save buttons save that figure, also beside another kernel's with the same numbers of models."""

from __future__ import annotations

import json
from pathlib import Path

from bokeh.embed import json_item
from bokeh.plotting import figure
from bokeh.util.paths import bokehjs_path

from labkit.plot.style import TOOLS, dress

PRESS = """async () => {
  const pressed = []
  for (const plot of Bokeh.index.roots.filter((root) => root.model.toolbar)) {
    globalThis.labkitDownload = (view, kind, words) => pressed.push([view.model.title.text, words.name])
    const button = plot.model.toolbar.tools.find((tool) => tool.description == "Save as PNG")
    await button.callback.execute(button)
  }
  return pressed
}"""


def test_a_button_saves_its_own_picture_where_two_kernels_number_alike(chromium):
    plot = figure(title="first", width=300, height=200, tools=TOOLS)
    plot.line([1, 2], [1, 2])
    dress(plot, {"reading": "", "alt": "first", "title": "first", "name": "first"})
    item = json.dumps(json_item(plot))
    page = chromium.new_page()
    try:
        page.set_content("<div id='first'></div><div id='second'></div>")
        page.add_script_tag(path=Path(bokehjs_path()) / "js" / "bokeh.min.js")
        for name in ("first", "second"):
            page.evaluate(f"() => Bokeh.embed.embed_item({item.replace('first', name)}, '{name}')")
        assert page.evaluate(PRESS) == [["first", "first"], ["second", "second"]]
    finally:
        page.close()
