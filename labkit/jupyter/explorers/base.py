"""The base of the explorers: a column of controls next to a picture, one refresh for a burst of changes.

Also `Quiz`, the buttons of a question: ``lk.check("tour_rounds")`` of an exercise with choices.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as w
from anywidget import AnyWidget
from ipywidgets import Layout
from traitlets import Dict, List, Unicode

from labkit.errors import LabkitError
from labkit.plot.figure import Figure
from labkit.plot.still import is_live, still_bundle
from labkit.plot.widget import Picture
from labkit.text.html import escape

__all__ = ["Explorer", "Player", "Quiz", "Select", "dropdown", "number_field", "slider", "text"]

#: changes that follow each other within this time are answered once
PATIENCE_S = 0.12

#: JupyterLab's handle is a white disc with a faint border, and its track an eighth of the control
_LOOK = (
    ".labkit-pale { opacity: .35 } "
    ".labkit-explorer .noUi-handle { border: 1.5px solid var(--jp-ui-font-color2, #555) } "
    ".labkit-explorer .widget-slider .widget-readout { min-width: 3.2em; max-width: 4.5em; flex: 0 1 auto }"
)

_STYLE = {"description_width": "7.5em"}


class Explorer(w.VBox):  # type: ignore[misc]  # ipywidgets is untyped
    """A widget of controls and pictures around a model that knows nothing of widgets.

    A subclass sets up its controls, then calls `start`. `compute` reads the controls and asks the model;
    what it raises is shown as one sentence below the controls, and the pictures stay as they were.

    Attributes
    ----------
    problem : str
        The sentence that is shown; empty when all is well.
    is_current : bool
        Whether what is shown is that of the controls: where they make no sense, it is what was shown before.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.problem = ""
        self.is_current = True
        self._says = w.HTML("")
        self._pictures: dict[str, Picture] = {}
        self._figures: dict[str, Figure] = {}
        self._shown: Sequence[w.Widget] = ()
        self._due: asyncio.TimerHandle | None = None
        self._is_setting = False
        super().__init__()
        self.add_class("labkit-explorer")

    def start(self, controls: Sequence[w.Widget], *rest: w.Widget, is_wide: bool = False) -> None:
        """Lay out the controls and what they change, and draw for the first time.

        Parameters
        ----------
        controls : sequence of widgets
            Each is watched.
        *rest : widgets
            Next to the controls, from left to right.
        is_wide : bool
            Put the controls above the rest, side by side: the pictures then have the whole width.

        Raises
        ------
        LabkitError
            What `compute` raises at the beginning.
        """
        for control in controls:
            if "value" in control.traits():
                control.observe(self._changed, "value")
        heading = w.HTML(f"<style>{_LOOK}</style><b>{escape(self.title)}</b>")
        self.compute()  # what the caller gave, and does not fit, is the caller's error
        self._shown = rest
        for one in rest:
            one.layout.overflow = "visible"
        flow = w.Layout(flex_flow="row wrap", align_items="flex-start")
        if is_wide:
            for control in controls:
                _fill(control)
            self.children = [heading, w.HBox(list(controls), layout=flow), self._says, *rest]
            return
        column = w.VBox([heading, *controls, self._says], layout=w.Layout(width="21.5em", flex="0 0 auto"))
        self.children = [w.HBox([column, *rest], layout=flow)]

    def compute(self) -> None:
        """Read the controls, ask the model, show what it says."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Compute immediately, and show a message if something does not work."""
        self._due = None
        self.is_current = False
        try:
            self.compute()
            self.is_current = True
            self.say("")
        except (LabkitError, ValueError) as error:
            self.say(_sentence(error))
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            self.say(f"{type(error).__name__}: {error} ({last.filename.rsplit('/', 1)[-1]}:{last.lineno})")

    def say(self, problem: str) -> None:
        """Show a sentence about what does not work, and pale what is not of these controls; none if empty."""
        self.problem = problem
        style = "color:var(--jp-error-color1, #b00);line-height:1.35;white-space:normal"
        said = f"{problem}{'' if self.is_current else ' (pale: as it was before)'}"
        self._says.value = f'<div role="alert" style="{style}">{escape(said)}</div>' if problem else ""
        for one in self._shown:
            change = one.add_class if problem and not self.is_current else one.remove_class
            change("labkit-pale")

    def picture(self, name: str, figure: Figure) -> Picture:
        """Show a figure in the place called `name`; return the widget of that place."""
        known = self._pictures.get(name)
        self._figures[name] = figure
        if known is None:
            known = self._pictures[name] = figure.widget()
        else:
            known.show(figure)
        return known

    def __repr__(self) -> str:
        """Return as text what it is, where it cannot be shown: in a terminal, in a notebook's text."""
        return f"{type(self).__name__}: {self.title}"

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        """Show the explorer, and a still picture of its state for the notebook's file."""
        still, sizes = still_bundle(self.kept())
        if still and not is_live():
            return {"text/plain": repr(self), **still}, sizes
        shown = super()._repr_mimebundle_(**kwargs)
        data = shown[0] if isinstance(shown, tuple) else shown
        return {**(data or {}), **still}, sizes

    def kept(self) -> list[Figure]:
        """Return the figures whose still pictures a notebook's file keeps: they describe the state.

        Returns
        -------
        list of Figure
            In the order in which they were first shown.
        """
        return list(self._figures.values())

    def pictures(self) -> list[Picture]:
        """Return the widgets of the pictures, in the order in which they were first shown."""
        return list(self._pictures.values())

    def set(self, **values: object) -> None:
        """Set controls, by the names of attributes, without answering to each: one refresh for all.

        This is what a test drives, and what a notebook may call.
        """
        with self.quiet():
            for name, value in values.items():
                getattr(self, name).value = value
        self.refresh()

    def quiet(self) -> _Quiet:
        """While it lasts, changes of controls are not answered."""
        return _Quiet(self)

    def _changed(self, _: object) -> None:
        if self._is_setting:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no kernel: a script, a test
            self.refresh()
            return
        if self._due is not None:
            self._due.cancel()
        self._due = loop.call_later(PATIENCE_S, self.refresh)


class Player(Explorer):
    """An explorer that is stepped through; the other controls say how many steps there are.

    Attributes
    ----------
    step, play : widgets
        The present step, and what plays them one after another.
    """

    step: w.IntSlider
    play: w.Play

    def set(self, **values: object) -> None:
        """Set controls; the step last, since the other ones say how many there are.

        Parameters
        ----------
        **values : value
            By the names of controls.
        """
        step = values.pop("step", None)
        super().set(**values)
        if step is not None and not self.problem:
            super().set(step=step)

    def fit_steps(self, last: int) -> None:
        """Let there be steps from 0 to `last`."""
        with self.quiet():
            for widget in (self.step, self.play):
                if widget.max != last:
                    widget.value = min(widget.value, last)
                    widget.max = last


class _Quiet:
    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer

    def __enter__(self) -> None:
        self._before, self._explorer._is_setting = self._explorer._is_setting, True

    def __exit__(self, *_: object) -> None:
        self._explorer._is_setting = self._before


def _sentence(error: Exception) -> str:
    """The first line of a message: below it may stand an excerpt that needs its own lines."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)[:400]


def _wide() -> Layout:
    return Layout(width="20em")


# A drop-down list that greys out what cannot be chosen just now, and says why.

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
        The label next to it, the text above it, and the width of the label.
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

    def refuse(self, reasons: dict[str, str]) -> None:
        """Grey out options, each with its reason; all others can be chosen again."""
        if self.refused != reasons:
            self.refused = reasons


def _fill(control: w.DOMWidget) -> None:
    """Let a control share a row with others: its label as wide as its text, the rest for what is chosen."""
    longest = max(map(len, map(str, getattr(control, "options", ()))), default=0)
    room = min(max(14.0, 3 + 0.5 * (len(control.description) + longest)), 30.0)  # a letter is half an em
    control.layout.width, control.layout.flex = "auto", f"1 1 {room}em"
    control.layout.min_width, control.layout.max_width = f"{room}em", f"{max(room, 22.0)}em"
    control.layout.margin = "2px 12px 2px 0"
    if isinstance(control, Select):
        control.label_width = "auto"
    elif "description_width" in getattr(control.style, "keys", ()):
        control.style.description_width = "initial"


def dropdown(label: str, options: Sequence[object], value: object, tip: str = "") -> w.Dropdown:
    """Return a drop-down list."""
    return w.Dropdown(
        description=label, options=options, value=value, tooltip=tip, style=_STYLE, layout=_wide()
    )


def text(label: str, value: str, hint: str = "", tip: str = "") -> w.Text:
    """Return a field of text, answered when it is left or Enter is pressed."""
    return w.Text(
        description=label,
        value=value,
        placeholder=hint,
        tooltip=tip,
        continuous_update=False,
        style=_STYLE,
        layout=_wide(),
    )


def number_field(label: str, value: int, least: int, most: int, tip: str = "") -> w.BoundedIntText:
    """Return a field for a whole number."""
    return w.BoundedIntText(
        description=label, value=value, min=least, max=most, tooltip=tip, style=_STYLE, layout=_wide()
    )


def slider(label: str, value: int, least: int, most: int, tip: str = "", live: bool = False) -> w.IntSlider:
    """Return a slider of whole numbers; unless live, it is answered when it is let go."""
    return w.IntSlider(
        description=label,
        value=value,
        min=least,
        max=most,
        tooltip=tip,
        continuous_update=live,
        style=_STYLE,
        layout=_wide(),
    )


class Quiz(w.VBox):  # type: ignore[misc]  # ipywidgets is untyped
    """The choices of an exercise; the one that is clicked is checked immediately."""

    def __init__(self, choices: Sequence[tuple[str, str]], check: Callable[[str], object]) -> None:
        options = [(f"{letter}: {text}", letter) for letter, text in choices]
        self.answer = w.RadioButtons(
            options=options, value=None, layout=w.Layout(width="max-content", max_width="100%")
        )
        self.reply = w.HTML()
        self._choices, self._checked = choices, check
        self.answer.observe(self._check, "value")
        super().__init__([self.answer, self.reply])

    def _check(self, change: dict[str, Any]) -> None:
        self.reply.value = f'<div role="status">{escape(str(self._checked(change["new"])))}</div>'

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        """Show the buttons, or the choices alone where no page can click them."""
        return super()._repr_mimebundle_(**kwargs) if is_live() else {"text/plain": repr(self)}

    def __repr__(self) -> str:
        """Return the choices, a line each."""
        return "\n".join(f"{letter}: {text}" for letter, text in self._choices)
