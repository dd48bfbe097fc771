"""A drop-down list that greys out what cannot be chosen just now, and says why."""

from __future__ import annotations

from typing import Any

from anywidget import AnyWidget
from ipywidgets import Layout
from traitlets import Dict, List, Unicode

__all__ = ["Select"]

_SCRIPT = """
function render({model, el}) {
  el.classList.add("jupyter-widgets", "widget-inline-hbox", "widget-dropdown")
  const label = Object.assign(document.createElement("label"), {className: "widget-label"})
  label.style.width = model.get("label_width")
  label.textContent = model.get("description")
  const list = document.createElement("select")
  list.setAttribute("aria-label", model.get("description"))
  el.append(label, list)
  const fill = () => {
    const refused = model.get("refused")
    list.replaceChildren(...model.get("options").map((name) => {
      const why = refused[name]
      const one = new Option(why ? `${name}: ${why}` : name, name)
      one.disabled = Boolean(why)
      return one
    }))
    list.value = model.get("value")
    list.title = refused[list.value] ?? model.get("tooltip")
  }
  list.addEventListener("change", () => { model.set("value", list.value); model.save_changes() })
  for (const name of ["options", "refused", "value"]) model.on(`change:${name}`, fill)
  fill()
}
export default {render}
"""


class Select(AnyWidget):  # type: ignore[misc]  # it is untyped
    """A drop-down list of names.

    Attributes
    ----------
    description, tooltip, label_width : str
        The words beside it, those over it, and the room of the former.
    options : list of str
    refused : dict of str to str
        Options that cannot be chosen now, greyed out, each with the reason.
    value : str
        What is chosen; Python may set any option, and learns of the reason when it is used.
    """

    _esm = _SCRIPT
    description = Unicode("").tag(sync=True)
    tooltip = Unicode("").tag(sync=True)
    label_width = Unicode("7.5em").tag(sync=True)
    options = List(Unicode()).tag(sync=True)
    refused = Dict().tag(sync=True)
    value = Unicode("").tag(sync=True)

    def __init__(self, description: str, options: list[str], value: str, tooltip: str = "") -> None:
        layout = Layout(width="20em")
        super().__init__(
            description=description, options=options, value=value, tooltip=tooltip, layout=layout
        )

    def refuse(self, reasons: dict[str, str]) -> Any:
        """Grey out options, each with its reason; all others can be chosen again."""
        if self.refused != reasons:
            self.refused = reasons
