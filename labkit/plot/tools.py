"""The toolbar that every figure has: move, zoom, reset, and the picture as PNG or SVG."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from bokeh.layouts import gridplot
from bokeh.models import CustomAction, CustomJS, HoverTool, SaveTool, Toolbar

__all__ = ["TOOLS", "dress", "grid_of"]

#: for `bokeh.plotting.figure`; `dress` replaces the last one
TOOLS = "pan,wheel_zoom,box_zoom,reset,save"

_SAVE = """
// Kernels number their models alike: the picture that this button belongs to is that of its document.
const views = Bokeh.index.roots.filter((one) => one.model.id == root)
const view = views.find((one) => one.model.document === cb_obj.document) ?? views[0]
if (view == null) return
if (globalThis.labkitDownload) { globalThis.labkitDownload(view, kind, words); return }
const layer = view.export(kind)
const link = document.createElement("a")
link.href = kind == "png" ? layer.canvas.toDataURL("image/png")
  : "data:image/svg+xml;charset=utf-8," + encodeURIComponent(layer.ctx.get_serialized_svg(true))
link.download = `${words.name}.${kind}`
link.click()
"""


def grid_of(small: Sequence[Any], columns: int | None = None) -> Any:
    """Lay small figures out in rows of `columns` (default: one row) with one toolbar for all."""
    quiet = {"logo": None, "autohide": True, "active_drag": None, "active_inspect": "auto"}
    return gridplot(
        list(small), ncols=columns or len(small), toolbar_location="right", merge_tools=True,
        toolbar_options=quiet,
    )  # fmt: skip


def dress(layout: Any, words: dict[str, str]) -> None:
    """Replace the save tool of a layout's toolbars by one for PNG and one for SVG, words included."""
    parts = list(layout.references())
    for toolbar in (one for one in parts if isinstance(one, Toolbar)):
        saves = any(isinstance(tool, SaveTool) for tool in toolbar.tools)
        kept = [tool for tool in toolbar.tools if not isinstance(tool, SaveTool)]
        if saves:
            kept += [_action(kind, str(layout.id), words) for kind in ("png", "svg")]
            toolbar.tools = kept
        toolbar.logo = None
        toolbar.autohide = True
    for hover in (one for one in parts if isinstance(one, HoverTool)):
        hover.visible = False  # always on: its button would only take room


def _action(kind: str, root: str, words: dict[str, str]) -> CustomAction:
    callback = CustomJS(args={"root": root, "kind": kind, "words": words}, code=_SAVE)
    return CustomAction(description=f"Save as {kind.upper()}", icon=_icon(kind.upper()), callback=callback)


def _icon(text: str) -> str:
    """A button's picture: a word over an arrow down."""
    drawn = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><g fill="none" stroke="#5f5f5f" '
        'stroke-width="1.8"><path d="M12 1v9M8 7l4 4 4-4"/></g><text x="12" y="22" font-family="sans-serif" '
        f'font-size="9.5" font-weight="bold" text-anchor="middle" fill="#5f5f5f">{text}</text></svg>'
    )
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn.encode()).decode()}"
