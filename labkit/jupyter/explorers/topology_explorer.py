"""The topology explorer: choose a machine, look at routes, bisection and hot links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as w

from labkit.errors import LabkitError
from labkit.jupyter.explorers.base import Explorer, choice, number, text
from labkit.jupyter.explorers.patterns import PATTERNS, refused
from labkit.jupyter.explorers.select import Select
from labkit.jupyter.explorers.topology_view import TopologyView, look, sized, spec_of
from labkit.platform import machines
from labkit.platform.platform import Platform, platform
from labkit.platform.spec import kinds

__all__ = ["TopologyExplorer", "topology"]

_GIVEN = "as given"


class TopologyExplorer(Explorer):
    """A machine to play with; see `topology`.

    Parameters
    ----------
    machine : Platform or what `labkit.platform` reads
        Where to begin.

    Attributes
    ----------
    kind, shape, options, source, target, pattern, shift, seed : widgets
        The controls, each with a `value`.
    view : TopologyView
        What is shown.
    """

    view: TopologyView

    def __init__(self, machine: str | Platform | Sequence[Any] = "torus:4x4") -> None:
        super().__init__("Topology")
        known = [*kinds(), *machines.names()]
        kind, shape, options = _taken_apart(machine)
        self._given = None if kind in known else platform(machine)
        if self._given is not None:
            known, kind = [_GIVEN, *known], _GIVEN
        self.kind = choice("machine", known, kind, "a topology, or a machine that exists")
        self.shape = text("shape", shape, tip="its size; how to write it stands below")
        self.options = text("options", options, "bw=1.25GBps", "behind commas, as in star:64,bw=1GBps")
        self._hint = w.HTML()
        self.source = number("from host", 0, 0, 1 << 20, "or click a host, then another one")
        self.target = number("to host", min(1, _hosts(machine) - 1), 0, 1 << 20)
        self.pattern = Select("pattern", list(PATTERNS), "none", "messages that make links hot")
        self.shift = number("shift by", 1, -(1 << 20), 1 << 20)
        self.seed = number("seed", 0, 0, 2**31 - 1)
        self._facts = w.HTML(layout=w.Layout(min_width="18em"))
        self._clicks = 0
        self.kind.observe(self._chosen, "value")
        self._show_needed()
        place = w.VBox()
        self.start(
            [self.kind, self.shape, self._hint, self.options, self.source, self.target, self.pattern,
             self.shift, self.seed],
            place, self._facts,
        )  # fmt: skip
        place.children = self.pictures()

    def compute(self) -> None:
        """Draw the machine that the controls describe."""
        self._show_needed()
        machine = sized(
            self._given if self._given is not None and self.kind.value == _GIVEN
            else spec_of(self.kind.value, self.shape.value, self.options.value)
        )  # fmt: skip
        self.pattern.refuse(refused(machine.hosts or 1))
        try:
            view = look(
                machine, (self.source.value, self.target.value), self.pattern.value, self.shift.value,
                self.seed.value,
            )  # fmt: skip
        except LabkitError:  # what is asked of the machine does not fit; the machine is shown all the same
            self._show(look(machine))
            self.is_current = True
            raise
        self._show(view)

    def _show(self, view: TopologyView) -> None:
        self.view = view
        self.picture("machine", view.figure)
        self._facts.value = view.html()
        self._listen(view)

    def click(self, point: int) -> None:
        """Choose the host of a point of the drawing: the first click where from, the next one where to.

        Parameters
        ----------
        point : int
            Its number in the drawing, from 0 on.
        """
        host = self.view.hosts[point]
        self._clicks += 1
        self.set(**({"source": host} if self._clicks % 2 else {"target": host}))

    def _listen(self, view: TopologyView) -> None:
        (hosts,) = view.figure.layout.select({"name": "hosts"})
        selected = hosts.data_source.selected

        def tapped(_: str, __: Any, points: list[int]) -> None:
            # A change may be told twice; after the first time another picture is shown.
            if points and view is self.view:
                self.click(points[0])

        if view.hosts:
            selected.on_change("indices", tapped)

    def _chosen(self, change: Any) -> None:
        """Another kind: begin with an example of its shape."""
        with self.quiet():
            self.shape.value = _example(change["new"])[0]
            self.options.value = ""
            self.source.value, self.target.value = 0, 1

    def _show_needed(self) -> None:
        kind, pattern = self.kind.value, self.pattern.value
        self.shape.layout.display = "" if kind in kinds() else "none"
        self.options.layout.display = "none" if kind == _GIVEN else ""
        hint = f'<div style="opacity:.75;margin-left:8em;line-height:1.2">{_example(kind)[1]}</div>'
        self._hint.value = hint
        self.shift.layout.display = "" if pattern == "shift" else "none"
        self.seed.layout.display = "" if pattern == "random pairs" else "none"


def _example(kind: str) -> tuple[str, str]:
    """An example of a topology's shape, and how to read it; nothing for a machine."""
    return kinds()[kind].EXAMPLE if kind in kinds() else ("", "")


def _hosts(machine: str | Platform | Sequence[Any]) -> int:
    """Count the hosts; a machine that grows has some."""
    return platform(machine).hosts or 2


def _taken_apart(machine: str | Platform | Sequence[Any]) -> tuple[str, str, str]:
    """Kind, shape and options of a specification."""
    spec = machine.spec if isinstance(machine, Platform) else str(machine)
    head, _, options = spec.partition(",")
    kind, _, shape = head.partition(":")
    return (kind, shape or _example(kind)[0], options) if kind in kinds() else (head, "", options)


def topology(machine: str | Platform | Sequence[Any] = "torus:4x4") -> TopologyExplorer:
    """Explore a machine: its picture, diameter, bisection and links, routes, and what makes links hot.

    Parameters
    ----------
    machine : Platform or what `labkit.platform` reads
        Where to begin.

    Returns
    -------
    TopologyExplorer
        A widget: the last line of a cell shows it.

    Raises
    ------
    PlatformError
        Not a machine.

    Examples
    --------
    >>> from labkit.jupyter import explorers
    >>> explorer = explorers.topology("torus:4x4")
    >>> explorer.set(source=0, target=10, pattern="all to all")
    >>> explorer.view.load.messages
    240
    >>> explorer.set(shape="4y4")
    >>> explorer.problem[:40]
    "platform 'torus:4y4', at character 7: ho"
    """
    return TopologyExplorer(machine)
