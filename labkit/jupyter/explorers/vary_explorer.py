"""A function's figure with a slider for each of its arguments, and a still picture that stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import ipywidgets as w

from labkit.errors import DataError
from labkit.jupyter.explorers.base import Explorer
from labkit.plot.figure import Figure

__all__ = ["Varied", "vary"]


class Varied(Explorer):
    """A function to be called with other values; see `vary`.

    Parameters
    ----------
    function, values
        As in `vary`.

    Attributes
    ----------
    controls : dict of str to widget
        A slider for each argument, each with a `value`.
    figure : Figure
        What the function has returned last.
    """

    figure: Figure

    def __init__(self, function: Callable[..., Figure], values: Mapping[str, Sequence[object]]) -> None:
        name = getattr(function, "__name__", "function").strip("<>").replace("_", " ")
        super().__init__(name[:1].upper() + name[1:])
        self._function = function
        self.controls = {
            name: w.SelectionSlider(
                description=name.replace("_", " "),
                options=list(choices),
                value=choices[len(choices) // 2],
                continuous_update=False,
                style={"description_width": "auto"},
            )
            for name, choices in values.items()
        }
        place = w.VBox()
        self.start(list(self.controls.values()), place, is_wide=True)
        place.children = self.pictures()

    def compute(self) -> None:
        """Call the function with the values of the sliders."""
        made = self._function(**{name: control.value for name, control in self.controls.items()})
        if not isinstance(made, Figure):
            raise DataError(
                f"the function must return a figure of labkit.plot; got {type(made).__name__}",
                code="wrong-type",
            )
        self.figure = made
        self.picture("figure", made)

    def kept(self) -> list[Figure]:
        """Return the figure with the values of the sliders in its reading: a still picture has no sliders.

        Returns
        -------
        list of Figure
            One.
        """
        said = ", ".join(f"{one.description}: {one.value}" for one in self.controls.values())
        made = self.figure
        reading = f"{said}." if made.has_words else f"{said}. {made.reading}"
        return [replace(made, reading=reading, alt=f"{said}. {made.alt}", has_words=False)]


def vary(function: Callable[..., Figure], **values: Sequence[object]) -> Varied:
    """Draw a function's figure again whenever a slider is moved.

    Like ipywidgets' ``interact``, of figures alone; a saved notebook keeps a still picture.

    Parameters
    ----------
    function : callable
        Takes the arguments by name, and returns a figure of `labkit.plot`.
    **values : sequence
        The values of each argument, in order; the one in the middle is the first.

    Returns
    -------
    Varied
        A widget: the last line of a cell shows it.

    Raises
    ------
    DataError
        No values, or a function that returns something else.

    Examples
    --------
    >>> import labkit as lk
    >>> def law(power):
    ...     p = [4, 8, 16, 32, 64]
    ...     return lk.plot.scaling(lk.fit(p, [2.0 * v**power for v in p]))
    >>> lk.explore.vary(law, power=[1, 2, 3]).figure.reading
    'It grows as p².'
    """
    if not callable(function):
        raise DataError(
            f"vary takes a function that returns a figure; got {type(function).__name__}", code="wrong-type"
        )
    if not values or not all(isinstance(one, Sequence) and len(one) for one in values.values()):
        raise DataError(
            "give the values of each argument as a sequence: vary(draw, kilobytes=[1, 8, 64])",
            code="wrong-type",
        )
    return Varied(function, dict(values))
