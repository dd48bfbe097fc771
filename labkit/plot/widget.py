"""A Bokeh picture as a notebook widget that brings BokehJS along, with its words and save buttons."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anywidget import AnyWidget
from jupyter_bokeh.widgets import BokehModel
from traitlets import Bool, Unicode

if TYPE_CHECKING:
    from labkit.plot.figure import Figure

__all__ = ["Picture", "bokehjs", "script"]

_FOLDER = Path(__file__).with_name("js")


@cache
def script(name: str) -> str:
    """Return one of the package's scripts as text."""
    return (_FOLDER / name).read_text("utf-8")


@cache
def bokehjs() -> bytes:
    """Return BokehJS of the installed Bokeh."""
    from bokeh.util.paths import bokehjs_path

    return (Path(bokehjs_path()) / "js" / "bokeh.min.js").read_bytes()


class Picture(AnyWidget, BokehModel):  # type: ignore[misc]  # both are untyped
    """A Bokeh layout in a notebook.

    The kernel's side is that of `jupyter_bokeh`: changes of the models travel both ways, callbacks run in
    Python. The browser's side loads BokehJS from the kernel when the page has none, so that no
    ``output_notebook()`` is needed, nothing is fetched, and no copy is saved in the notebook; it shows the
    reading below the picture, has the alternative text, and saves the picture as PNG or SVG.

    Parameters
    ----------
    model : bokeh LayoutDOM
    reading, alt : str
        As in `labkit.plot.Figure`.
    is_said : bool
        Whether the picture holds its reading already.
    name : str
        Of saved files, without the ending.
    """

    _esm = f"{script('export.js')}\n{script('picture.js')}"
    reading = Unicode("").tag(sync=True)
    alt = Unicode("").tag(sync=True)
    is_said = Bool(False).tag(sync=True)
    name = Unicode("labkit").tag(sync=True)

    def __init__(self, model: Any, **traits: Any) -> None:
        super().__init__(model, **traits)
        self.on_msg(self._answer)

    def show(self, figure: Figure) -> None:
        """Show another figure in the same place."""
        with self.hold_sync():
            self.reading, self.alt, self.is_said = figure.reading, figure.alt, figure.has_words
            self.name = figure.file_name()
            self.update_from_model(figure.layout)

    def _answer(self, _: Any, content: dict[str, Any], __: Any) -> None:
        if content.get("kind") == "bokehjs":
            self.send({"kind": "bokehjs"}, [bokehjs()])
