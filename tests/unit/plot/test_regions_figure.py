"""The figure of regions: fields, borders of the tree and what is said, held against a planted tuning."""

from __future__ import annotations

import pandas as pd
from bokeh.models import FactorRange, LegendItem
from bokeh.models.glyphs import Rect, Scatter, Segment

import labkit as lk
from labkit.errors import DataError
from labkit.tuning.tuned import SimulatedMachine, Tuned
from tests.support.refusals import raises_code

#: ranks, bytes -> (ring, tree)
TIMES = {
    (4, 8): (3.0, 1.0), (4, 64): (2.0, 1.0), (4, 512): (1.0, 4.0),
    (8, 8): (5.0, 1.0), (8, 64): (1.0, 1.1), (8, 512): (1.0, 9.0),
}  # fmt: skip


def planted(leaves=25, times=TIMES):
    rows = [
        ("bcast", p, n, name, s)
        for (p, n), both in times.items()
        for name, s in zip(("ring", "binomial"), both, strict=True)
    ]
    columns = ["operation", "ranks", "bytes", "algorithm", "time_s"]
    machine = SimulatedMachine(lk.platform("star:8"), lk.platform("star:8").model)
    return Tuned("bcast", machine, pd.DataFrame(rows, columns=columns), leaves)


def glyphs(figure, kind):
    return [r for r in figure.layout.renderers if isinstance(getattr(r, "glyph", None), kind)]


def test_every_point_has_a_field_in_the_color_of_the_fastest():
    figure = lk.plot.regions(planted())
    fields = {}
    for drawn in glyphs(figure, Rect):
        data = drawn.data_source.data
        for x, y, name in zip(data["x"], data["y"], data["fastest"], strict=True):
            fields[x, y] = name, drawn.glyph.fill_color
    size = {8: "8 B", 64: "64 B", 512: "512 B"}
    for (p, n), (ring, tree) in TIMES.items():
        assert fields[size[n], str(p)][0] == ("ring" if ring < tree else "binomial")
    assert len(fields) == len(TIMES)
    assert len({color for _, color in fields.values()}) == 2
    assert isinstance(figure.layout.x_range, FactorRange)
    assert list(figure.layout.x_range.factors) == list(size.values())
    labels = {item.label.value for item in figure.layout.select({"type": LegendItem})}
    assert labels == {"ring", "binomial", "border of the decision tree"}


def test_borders_are_where_the_tree_changes_and_dots_where_it_loses():
    exact = lk.plot.regions(planted())
    (lines,) = glyphs(exact, Segment)
    ends = lines.data_source.data if lines.data_source.data else {}
    pairs = set(zip(map(tuple, ends["x0"]), map(tuple, ends["y0"]), strict=True))
    assert pairs == {
        (("64 B", 0.5), ("4", -0.5)),  # p = 4: tree below 512 B
        (("8 B", 0.5), ("8", -0.5)),  # p = 8: tree below 64 B
        (("64 B", -0.5), ("4", 0.5)),  # at 64 B the rows differ
    }
    assert not glyphs(exact, Scatter)
    assert "fastest everywhere" in exact.reading
    coarse = planted(leaves=2)
    lossy = lk.plot.regions(coarse)
    (dots,) = glyphs(lossy, Scatter)
    assert len(dots.data_source.data["x"]) == 1
    assert "slower one at 1 of them" in lossy.reading
    assert coarse.plot().reading == lossy.reading


def test_sizes_that_are_written_alike_stay_apart():
    figure = lk.plot.regions(planted(times={(4, 4100): (1.0, 2.0), (4, 4101): (2.0, 1.0)}))
    assert list(figure.layout.x_range.factors) == ["4,100 B", "4,101 B"]


def test_one_field_and_no_field():
    one = lk.plot.regions(planted(times={(1, 8): (0.0, 0.0)}))
    assert "1 point." in one.reading
    with raises_code(DataError, "no-data"):
        lk.plot.regions(planted(times={}))


def test_the_command_writes_it(tmp_path, capsys):
    from labkit.cli.main import main

    target = tmp_path / "regions.html"
    arguments = ["--ranks", "2,4", "--sizes", "8,64K", "--algorithms", "ring,binomial", "--plot", str(target)]
    assert main(["tune", "bcast", *arguments]) == 0
    assert f"written: {target}" in capsys.readouterr().out
    assert "ranks p" in target.read_text()
