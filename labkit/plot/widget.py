"""A Bokeh picture as a notebook widget that brings BokehJS along, with its description and save buttons."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anywidget import AnyWidget
from jupyter_bokeh.widgets import BokehModel
from traitlets import Bool, Bytes, Unicode

if TYPE_CHECKING:
    from labkit.plot.style import Drawn

__all__ = ["Picture", "bokehjs", "script"]

_FOLDER = Path(__file__).with_name("js")


@cache
def script(name: str) -> str:
    """Return one of the package's scripts as text."""
    return (_FOLDER / name).read_text("utf-8")


@cache
def bokehjs() -> bytes:
    """Return BokehJS of the installed Bokeh, compressed."""
    from bokeh.util.paths import bokehjs_path

    return gzip.compress((Path(bokehjs_path()) / "js" / "bokeh.min.js").read_bytes(), mtime=0)


class _Holder:
    """Remembers the picture that holds BokehJS."""

    picture: Any = None


class Picture(AnyWidget, BokehModel):  # type: ignore[misc]  # both are untyped
    """A Bokeh layout in a notebook.

    The kernel's side is that of `jupyter_bokeh`: changes of the models travel both ways, callbacks run in
    Python. The browser's side takes BokehJS from the kernel when the page has none: the first picture of a
    kernel holds it (350 kB), so that it is there even while the kernel is busy. No ``output_notebook()`` is
    needed, nothing is fetched, and no copy is saved in the notebook. The reading stands below the picture,
    it has the alternative text, and buttons save it as PNG or SVG.

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
    #: compressed BokehJS, and the model that has it
    library = Bytes(b"").tag(sync=True)
    holder = Unicode("").tag(sync=True)

    def __init__(self, model: object, **traits: object) -> None:
        first = _Holder.picture is None
        library = bokehjs() if first else b""
        held_by = "" if first else str(_Holder.picture.model_id)
        super().__init__(model, library=library, holder=held_by, **traits)
        if first:
            _Holder.picture = self
        self.on_msg(self._answer)

    def close(self) -> None:
        """Take the picture away; the next new one brings BokehJS along again."""
        if self.comm is None:  # it is closed once more when it is collected
            return
        if _Holder.picture is self:
            _Holder.picture = None
        super().close()

    def show(self, figure: Drawn) -> None:
        """Show another figure in the same place."""
        with self.hold_sync():
            self.reading, self.alt, self.is_said = figure.reading, figure.alt, figure.has_words
            self.name = figure.file_name()
            self.update_from_model(figure.layout)

    def _answer(self, _: object, content: dict[str, object], __: object) -> None:
        if content.get("kind") == "bokehjs":
            self.send({"kind": "bokehjs"}, [bokehjs()])
