"""The panes of a report: what they show adds up, follows the choices, and says where it is most."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

import labkit as lk

pytest.importorskip("ipywidgets")
pytest.importorskip("anywidget")
pytest.importorskip("jupyter_bokeh")

from labkit.errors import DataError
from labkit.jupyter.explorers import waits_explorer
from labkit.plot.report_panes import SCALES, kept_rows
from labkit.text.html import quantity
from labkit.text.units import format_share
from tests.support.refusals import raises_code


def program(comm: Any, slow: int = 2, calls: int = 1) -> None:
    with lk.phase("work"):
        lk.compute(seconds=1e-3 * (1 + (comm.rank == slow)))
        with lk.phase("inner"):
            comm.allreduce(comm.rank)
    for number in range(calls):
        with lk.phase(f"phase {number}"):
            lk.compute(seconds=1e-6 * (number + 1))


def recorded(ranks: int = 4, on: str = "torus:2x2", **kwargs: Any) -> Any:
    return lk.run(program, ranks, on=on, trace=True, kwargs=kwargs)


def rows(explorer: Any, pane: str) -> dict[str, str]:
    """The rows of a pane: label to value."""
    texts = explorer._drawn.sources[pane].data["text"]
    return dict(reversed(text.split("  ", 1)) for text in texts)


def test_panes_follow_each_other() -> None:
    one = lk.explore.waits(recorded())
    assert rows(one, "metrics")["wait at nxn"] == "3 ms"
    one.set(metric="wait_at_nxn")
    assert rows(one, "paths")["inner"] == rows(one, "paths")["program"] == "3 ms"
    one.set(path=one.report.path("inner"), values="exclusive")
    assert rows(one, "paths")["inner"] == "0 s"
    one.set(path=one.report.path("allreduce"))
    tips = one._drawn.sources["machine"].data["tip"]
    assert tips[0] == "host 0, rank 0: 1 ms"
    assert tips[2] == "host 2, rank 2: 0 s"
    one.set(rank=2)
    assert rows(one, "metrics")["wait at nxn"] == "0 s"
    assert one.figure.reading.startswith(
        "program, 4 ranks on torus:2x2: wait at nxn in work > inner > allreduce"
    )
    assert one.pictures()[0].reading == one.figure.reading


def test_clicks_choose_and_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    one = lk.explore.waits(recorded())
    monkeypatch.setattr(waits_explorer, "_TWICE_S", 1e9)
    sources = one._drawn.sources
    at = list(sources["metrics"].data["node"]).index(0)

    def click(pane: str, label: str) -> None:
        source = sources[pane]
        texts = [text.split("  ", 1)[1] for text in source.data["text"]]
        source.selected.indices = [texts.index(label)]

    click("metrics", "wait states")
    assert one.metric.value == "waiting"
    assert "collective" in rows(one, "metrics")
    click("metrics", "wait states")  # the same click, told twice
    assert "collective" in rows(one, "metrics")
    monkeypatch.setattr(waits_explorer, "_TWICE_S", -1.0)
    click("metrics", "wait states")  # once more: folded
    assert "collective" not in rows(one, "metrics")
    assert sources["metrics"].data["node"][at] == 0
    click("paths", "work")
    click("paths", "work")
    assert "inner" not in rows(one, "paths")
    one.set(values="exclusive")
    assert rows(one, "paths")["work"] != "0 s", "what is folded is shown with all that is in it"
    sources["machine"].selected.indices = [2]
    assert one.rank.value == 2
    sources["machine"].selected.indices = [2]
    assert one.rank.value == -1
    assert not one.problem


def test_percentages_are_of_the_whole_or_of_the_choice() -> None:
    one = lk.explore.waits(recorded())
    one.set(metric="waiting", scale=SCALES[1])
    share = one.report.total("waiting") / one.report.total("time")
    assert rows(one, "paths")["program"] == f"{100 * share:.0f}%"
    one.set(scale=SCALES[2])
    assert rows(one, "paths")["program"] == "100%"


def test_runs_are_subtracted_averaged_and_merged() -> None:
    first, second = recorded(), recorded(slow=0)
    one = lk.explore.waits(first, second)
    names = list(one.shown.options)
    assert [name.split(":")[0].split(" of ")[0] for name in names[2:]] == ["difference", "mean", "merge"]
    one.set(metric="computation", path=one.report.path("work"))
    one.shown.value = names[2]
    assert one.metric.value == "computation"
    assert one.report.paths[one.path.value].label == "work"
    tips = one._drawn.sources["machine"].data["tip"]
    assert [tip.split(": ")[1] for tip in tips] == ["-1 ms", "0 s", "+1 ms", "0 s"]
    assert "from -1 ms on rank 0 to +1 ms on rank 2" in one.figure.reading
    colors = one._drawn.sources["machine"].data["color"]
    assert len({colors[0], colors[1], colors[2]}) == 3
    one.shown.value = names[3]
    assert one.report.total("computation") == pytest.approx(first.report().total("computation"))


def test_runs_of_other_sizes_compare_by_the_mean_of_their_ranks() -> None:
    one = lk.explore.waits(recorded(4), recorded(8, "star"))
    one.shown.value = next(name for name in one.shown.options if name.startswith("difference"))
    assert one.report.ranks == 1
    assert not one.problem
    expected = (
        recorded(4).report().by_rank("time").mean() - recorded(8, "star").report().by_rank("time").mean()
    )
    assert one.report.total("time") == pytest.approx(expected)


@pytest.mark.parametrize(
    "on", ["star:6", "torus:2x3", "fattree:2x3:1x2:1x1", "dragonfly:2x1:2x1:2x1:2", "graphene"]
)
@pytest.mark.parametrize("ranks", [1, 5])
@pytest.mark.slow
def test_every_machine_is_drawn(on: str, ranks: int) -> None:
    run = recorded(ranks, on)
    one = lk.explore.waits(run)
    data = one._drawn.sources["machine"].data
    hosts = len(set(lk.platform(on).rank_hosts(ranks).tolist()))
    assert len(data["node"]) == hosts
    assert np.isfinite(data["x"]).all()
    assert len(set(zip(data["x"], data["y"], strict=True))) == hosts


def test_ranks_that_share_a_host_are_summed_up() -> None:
    one = lk.explore.waits(recorded(6, "star:2,cores=3"))
    one.set(metric="computation")
    tips = one._drawn.sources["machine"].data["tip"]
    assert tips == ["host 0, ranks 0-2: 4 ms", "host 1, ranks 3-5: 3 ms"]


def test_of_many_call_paths_the_largest_are_shown() -> None:
    one = lk.explore.waits(recorded(calls=60))
    shown = rows(one, "paths")
    assert len(shown) <= 28
    assert "phase 59" in shown
    assert "phase 0" not in shown
    assert "call paths of less are not shown" in one.figure.reading
    one.set(path=one.report.path("phase 0"))
    assert "phase 0" in rows(one, "paths"), "what is chosen is shown"
    assert kept_rows([-1, 0, 1, 2], [0, 0, 0, 9], 2, 0) == [0, 1, 2, 3]


def test_a_still_picture_stays_in_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("LABKIT_LIVE", "0")
    data, _ = lk.explore.waits(recorded())._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")


def test_mistakes_are_sentences() -> None:
    with raises_code(DataError, "missing-key"):
        lk.explore.waits()
    with raises_code(DataError, "wrong-type"):
        lk.explore.waits(3)  # type: ignore[arg-type]
    with raises_code(DataError, "not-recorded", "trace=True"):
        lk.explore.waits(lk.run(program, 2, on="star:2"))
    with raises_code(DataError, "out-of-range", "ranks", "0", "3", "4"):
        lk.plot.report(recorded(), rank=4)
    with raises_code(DataError, "unknown-name"):
        lk.plot.report(recorded(), scale="log")
    assert "bytes sent in work" in lk.plot.report(recorded(), "bytes", "work").reading


def test_the_letters_have_a_font_and_no_column_of_its_name() -> None:
    from bokeh.core.validation.check import check_integrity

    models = set(lk.plot.report(recorded()).layout.references())
    assert not check_integrity(models).error


@pytest.mark.slow
@pytest.mark.mpi
def test_real_beside_simulated() -> None:
    real = lk.run(program, 3, on="mpi", trace=True)
    one = lk.explore.waits(recorded(3, "star"), real)
    one.shown.value = next(name for name in one.shown.options if name.startswith("difference"))
    assert not one.problem
    labels = {path.label for path in one.report.paths}
    assert {"work", "inner", "phase 0"} <= labels
    assert sum("allreduce" in label for label in labels) == 1, "the same call on both machines"


def test_what_is_said_of_a_rank_is_the_ranks_own() -> None:
    def uneven(comm: Any) -> None:
        lk.compute(seconds=1e-3 * (1 + comm.rank))
        comm.Barrier()

    run = lk.run(uneven, 4, "star:4", trace=True)
    one = lk.explore.waits(run)
    report = run.report()
    one.metric.value = "computation"
    for rank in range(4):
        one.rank.value = rank
        own = float(report.by_rank("computation")[rank])
        share = own / float(report.by_rank("time")[rank])
        said = f"in the program on rank {rank}, {quantity(own, 's', 3)} ({format_share(share)} of its time)"
        assert f"computation {said}" in one.figure.reading
        assert "most on rank 3 (4 ms), least on rank 0 (1 ms)" in one.figure.reading


def test_numbers_can_be_read_on_light_and_dark_cells() -> None:
    explorer = lk.explore.waits(recorded(4, "star"))
    explorer.set(metric="wait_at_nxn")
    data = explorer._drawn.sources["machine"].data
    inks = dict(zip(data["tip"], data["ink"], strict=True))
    assert inks["rank 2: 0 s"] == "#222222"
    assert inks["rank 0: 1 ms"] == "white"


def test_calls_in_cells_have_the_names_of_the_cells(notebook: Any) -> None:
    notebook.run("import labkit as lk\ndef ring(comm):\n    comm.allreduce(1)")
    notebook.run("waits = lk.explore.waits(lk.run(ring, 4, trace=True))")
    labels = [label for label, _ in notebook.names["waits"].path.options]
    number = notebook.shell.execution_count - 2
    assert f"allreduce (Cell In[{number}]:3)" in labels
