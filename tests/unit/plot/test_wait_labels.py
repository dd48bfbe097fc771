"""Labels of the tables of waits: whole where there is room, never two alike; drawings in a dark theme."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import labkit as lk
from labkit.plot.waits_figure import _WIDE, _labels

words = st.text(st.characters(categories=["Ll"]), min_size=1, max_size=70)
places = st.builds(
    lambda phases, call: " > ".join(phases) + call,
    st.lists(words, min_size=1, max_size=6),
    st.sampled_from(["", ": Recv", ": Allreduce"]),
)


@given(st.lists(st.tuples(st.booleans(), places), min_size=1, max_size=9))
def test_labels_are_of_two_lines_have_their_share_and_are_never_alike(rows: Any) -> None:
    texts = [f"late sender ({place}) 12%" if is_wait else f"{place} 12%" for is_wait, place in rows]
    labels = _labels(texts)
    assert len({*labels}) == len(texts)
    for text, label in zip(texts, labels, strict=True):
        lines = label.rstrip().split("\n")
        assert len(lines) <= 2
        assert max(map(len, lines)) <= _WIDE
        assert label.rstrip().endswith("12%")
        if len(text) <= _WIDE:
            assert label.rstrip() == text


def program(comm: Any) -> None:
    with lk.phase("redistribution of the particles"), lk.phase("exchange of the boundary with neighbors"):
        lk.compute(seconds=1e-3 * comm.rank)
        comm.Allreduce(np.zeros(4), np.zeros(4))
        if comm.rank == 0:
            lk.compute(seconds=1e-3)
        comm.Barrier()


def test_calls_of_one_long_phase_are_told_apart() -> None:
    figure = lk.plot.waits(lk.run(program, 4, "star:4", trace=True))
    factors = [factor for _, panel in _panels(figure) for factor in panel.y_range.factors]
    waits = [factor for factor in factors if factor.startswith("wait at")]
    assert any("Barrier" in factor for factor in waits)
    assert any("Allreduce" in factor for factor in waits)


def _panels(figure: Any) -> list[tuple[int, Any]]:
    from bokeh.models import FactorRange, Plot

    found = [one for one in figure.layout.select({"type": Plot}) if isinstance(one.y_range, FactorRange)]
    return [*enumerate(found)]


def test_the_dark_theme_turns_drawings_as_it_turns_pictures() -> None:
    text = Path(lk.__file__).parent.joinpath("cli/jupyter_config/custom/custom.css").read_text("utf-8")
    rule = next(rule for rule in re.findall(r"[^{}]+\{[^{}]*filter: invert[^{}]*\}", text))
    assert "jp-needs-light-background" in rule
    assert ".jp-RenderedSVG" in rule
