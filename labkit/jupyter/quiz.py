"""Questions that are answered by a click: ``lk.check("tour_rounds")`` of an exercise with choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from labkit.plot.still import is_live

__all__ = ["Quiz"]


class Quiz(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """The choices of an exercise; the one that is clicked is checked immediately."""

    def __init__(self, choices: Sequence[tuple[str, str]], check: Callable[[str], object]) -> None:
        options = [(f"{letter}: {text}", letter) for letter, text in choices]
        self.answer = widgets.RadioButtons(
            options=options, value=None, layout=widgets.Layout(width="max-content", max_width="100%")
        )
        self.reply = widgets.HTML()
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
