"""The wait-for graph of a deadlock, as a static picture below a failing cell."""

from __future__ import annotations

import math
import os
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import DataError, DeadlockError
from labkit.text.files import replace_file
from labkit.text.html import escape

__all__ = ["Drawing", "wait_for"]

_BLUE, _ORANGE, _GREY, _INK = "#0072B2", "#D55E00", "#777777", "#222222"
_RADIUS = 17.0
#: arrows that leave one rank
_MOST_ARROWS = 8
#: ranks beyond which only numbers are written
_NAMED = 12
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Drawing:
    """A still picture with its description.

    Attributes
    ----------
    svg : str
        The picture, a whole SVG file on white.
    reading, alt : str
        What it shows, in one sentence; a description for readers who do not see it.
    """

    svg: str
    reading: str
    alt: str

    def __repr__(self) -> str:
        return f"Drawing: {self.reading}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        # a notebook that is not trusted shows a picture in a page, but no SVG file
        page = f'<img alt="{escape(self.alt)}" src="data:image/svg+xml;base64,{_code(self.svg)}">'
        return {"text/html": page, "image/svg+xml": self.svg, "text/plain": f"{self!r}\n{self.alt}"}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to an ``.svg`` file.

        Parameters
        ----------
        path : path
            Where to.

        Returns
        -------
        Path

        Raises
        ------
        DataError
            Another ending.
        """
        target = Path(path)
        if target.suffix.lower() != ".svg":
            raise DataError(f"this drawing is saved as .svg; got {os.fspath(path)!r}", code="unknown-format")
        replace_file(target, self.svg)
        return target


def _code(svg: str) -> str:
    return b64encode(svg.encode()).decode()


def wait_for(error: DeadlockError) -> Drawing:
    """Draw who waits for whom in a deadlock: an arrow leads from a rank to one that could end its wait.

    A notebook shows it by itself above the report of a deadlock.

    Examples
    --------
    >>> import labkit as lk
    >>> def both_receive(comm):
    ...     comm.recv(source=1 - comm.rank)
    >>> try:
    ...     lk.run(both_receive, ranks=2, on="star")
    ... except lk.errors.DeadlockError as error:
    ...     print(wait_for(error).reading)
    Rank 0 waits for rank 1, which waits for rank 0: 2 of 2 ranks wait forever.
    """
    if not isinstance(error, DeadlockError):
        raise DataError(
            f"the graph of a deadlock is drawn of a DeadlockError; got {type(error).__name__}",
            code="wrong-type",
        )
    if not error.waits:
        raise DataError(
            "this deadlock came without the graph of its waits; its message lists who waits where",
            code="not-recorded",
        )
    drawn = sorted(error.waits)
    ended = sorted({p for _, peers in error.waits.values() for p in peers[:_MOST_ARROWS]} - {*drawn})
    if error.blocked > len(drawn):  # who is not drawn may wait, too
        ended = []
    names = [*drawn, *ended]
    width, height, places = _circle(names)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="{_FONT}" role="img">',
        f"<title>{escape(_reading(error))}</title><desc>{escape(_alt(error))}</desc>",
        f'<rect width="{width:g}" height="{height:g}" rx="6" fill="#ffffff"/>',
        _HEADS,
        *_arrows(error, places),
        *_ranks(error, names, ended, places, width / 2),
        f'<text x="12" y="{height - 10:g}" font-size="12" fill="#444444">',
        f"{escape(_legend(error, ended))}</text></svg>",
    ]
    return Drawing("".join(parts), _reading(error), _alt(error))


_HEADS = (
    "<defs>"
    + "".join(
        f'<marker id="labkit-{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="{size}" '
        f'markerHeight="{size}" orient="auto-start-reverse">'
        f'<path d="M0 0L10 5L0 10z" fill="{color}"/></marker>'
        for name, color, size in (("cycle", _ORANGE, 5), ("other", _GREY, 7))
    )
    + "</defs>"
)


def _circle(names: list[int]) -> tuple[float, float, dict[int, tuple[float, float]]]:
    """Place ranks on a circle, the first on top; few stand side by side."""
    around = max(72.0, len(names) * 4.0 * _RADIUS / (2 * math.pi))
    middle = around + 190.0, (around if len(names) > 2 else 12.0) + _RADIUS + 30.0
    turn = -math.pi / 2 if len(names) > 2 else math.pi
    places = {}
    for i, name in enumerate(names):
        at = turn + 2 * math.pi * i / len(names)
        places[name] = (middle[0] + around * math.cos(at), middle[1] + around * math.sin(at))
    if len(names) == 1:
        places = {names[0]: middle}
    return 2 * middle[0], 2 * middle[1] + 14.0, places


def _arrows(error: DeadlockError, places: dict[int, tuple[float, float]]) -> Iterator[str]:
    cycle = list(error.cycle)
    circle = set(zip(cycle, [*cycle[1:], *cycle[:1]], strict=True))
    pairs = [(a, b) for a, (_, peers) in error.waits.items() for b in peers[:_MOST_ARROWS] if b in places]
    pairs += [pair for pair in circle if pair not in pairs and {*pair} <= {*places}]
    for a, b in sorted(dict.fromkeys(pairs), key=lambda pair: pair in circle):
        kind, color, wide = ("cycle", _ORANGE, 3) if (a, b) in circle else ("other", _GREY, 1.4)
        yield (
            f'<path d="{_curve(places[a], places[b])}" fill="none" stroke="{color}" stroke-width="{wide}" '
            f'marker-end="url(#labkit-{kind})"><title>rank {a} waits for rank {b}</title></path>'
        )


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    """From edge to edge, bent a little, so that two ranks that wait for each other have two arrows."""
    (x0, y0), (x1, y1) = start, end
    long = math.hypot(x1 - x0, y1 - y0)
    if long < 1.0:  # a rank that waits for itself
        return f"M{x0 - 9:.1f} {y0 - 15:.1f}c-25 -41 43 -41 18 -2"
    bend = min(26.0, 0.2 * long)
    mx, my = (x0 + x1) / 2 - bend * (y1 - y0) / long, (y0 + y1) / 2 + bend * (x1 - x0) / long

    def edge(x: float, y: float, room: float) -> tuple[float, float]:
        far = math.hypot(mx - x, my - y)
        return x + room * (mx - x) / far, y + room * (my - y) / far

    (a, b), (c, d) = edge(x0, y0, _RADIUS), edge(x1, y1, _RADIUS + 3)
    return f"M{a:.1f} {b:.1f}Q{mx:.1f} {my:.1f} {c:.1f} {d:.1f}"


def _ranks(
    error: DeadlockError,
    names: list[int],
    ended: list[int],
    places: dict[int, tuple[float, float]],
    middle: float,
) -> Iterator[str]:
    for rank in names:
        x, y = places[rank]
        is_over = rank in ended
        ink = _INK if is_over else "#ffffff"
        fill = "#ffffff" if is_over else _ORANGE if rank in error.cycle else _BLUE
        edge = f'stroke="{_GREY}" stroke-dasharray="4 3"' if is_over else 'stroke="#ffffff"'
        said = "has ended" if is_over else _placeless(error.waits[rank][0])
        yield (
            f'<g><title>rank {rank}: {escape(said)}</title><circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:g}" '
            f'fill="{fill}" {edge} stroke-width="1.5"/><text x="{x:.1f}" y="{y + 4.5:.1f}" font-size="13" '
            f'font-weight="600" text-anchor="middle" fill="{ink}">{rank}</text></g>'
        )
        if len(names) <= _NAMED:
            to_left, is_middle = x < middle - 1, abs(x - middle) <= 1 < len(names)
            label, below = "ended" if is_over else _short(said), y > places[names[0]][1]
            at = (x, y + (34 if below else -25)) if is_middle else (x + (-26 if to_left else 26), y + 4.5)
            anchor = "middle" if is_middle else "end" if to_left else "start"
            yield (
                f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" font-size="12" text-anchor="{anchor}" '
                f'fill="{_INK}">{escape(label)}</text>'
            )


def _placeless(text: str) -> str:
    """What a rank waits for, without the place in the program: a picture outlives its notebook's files."""
    return text.partition(" at ")[0]


def _short(text: str) -> str:
    """The call of a wait, and its tag: whom it waits for, the arrows say."""
    call = re.split(r" (?:from|to|for) |, waiting|:| at | in ", text, maxsplit=1)[0]
    tag = re.search(r"tag (\d+)", text)
    who = " from any" if "any rank" in text else ""
    return f"{call}{who}{f', tag {tag[1]}' if tag and tag[1] != '0' else ''}"[:24]


def _reading(error: DeadlockError) -> str:
    total = f"{error.blocked} of {error.ranks} ranks wait forever"
    cycle = list(error.cycle)
    if not cycle:
        return f"{total}: for ranks that have ended, for any rank, or for each other, but not in a cycle."
    if len(cycle) > 6:
        return f"{len(cycle)} ranks wait for each other in a cycle that begins at rank {cycle[0]}: {total}."
    rest = "".join(f", which waits for rank {rank}" for rank in [*cycle[2:], cycle[0]])
    second = cycle[1] if len(cycle) > 1 else cycle[0]
    return f"Rank {cycle[0]} waits for rank {second}{rest if len(cycle) > 1 else ''}: {total}."


def _alt(error: DeadlockError) -> str:
    said = "; ".join(f"rank {rank}: {_placeless(text)}" for rank, (text, _) in list(error.waits.items())[:12])
    return (
        f"Wait-for graph of a deadlock: ranks on a circle, an arrow for each wait. {_reading(error)} {said}."
    )


def _legend(error: DeadlockError, ended: list[int]) -> str:
    parts = ["an arrow: waits for"]
    if error.cycle:
        parts.append("orange: the cycle")
    if ended:
        parts.append("dashed: has ended")
    if error.blocked > len(error.waits):
        parts.append(f"{len(error.waits)} of {error.blocked} waiting ranks drawn")
    return "; ".join(parts)
