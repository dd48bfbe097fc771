"""Explanations: what they say about runs whose reason is known."""

import json

import numpy as np
import pytest

import labkit as lk
from labkit import plot
from labkit.errors import DataError
from labkit.machines.measure import kind_of
from labkit.trace.explanation import COMPUTATION, LATENCY
from labkit.trace.trace import NO_PHASE, PhaseClock
from tests.support.refusals import raises_code


def steps(comm, flops_s=1e-3, count=50_000):
    with lk.phase("work"):
        lk.compute(seconds=flops_s)
    with lk.phase("talk"):
        comm.Alltoall(np.zeros(count * comm.size), np.empty(count * comm.size))


def explained(program, machine, *args):
    return lk.run(program, 16, machine, args=args, trace=True).explain()


def test_reasons_add_up_and_belong_to_their_phases():
    e = explained(steps, "star:16")
    assert e.reasons["seconds"].sum() == pytest.approx(e.makespan_s, rel=1e-12)
    by_phase = e.reasons.groupby("phase")["seconds"].sum()
    assert by_phase["work"] == pytest.approx(1e-3)
    work = e.reasons[e.reasons["phase"] == "work"]
    assert work["reason"].tolist() == [COMPUTATION]
    assert e.is_exact
    assert e.bottlenecks.moved_error < 1e-9


def test_thin_tree_is_slower_for_the_links_between_its_levels():
    wide, thin = (explained(steps, spec) for spec in ("fattree:4x4:1x4:1x1", "fattree:4x4:1x1:1x1"))
    assert "level 1 up to level 2" in str(thin.totals().index[0])
    said = lk.contrast([wide, thin]).reading()
    assert said.startswith("fattree:4x4:1x1:1x1 takes")
    assert "level 1 up to level 2" in said
    assert thin.links.iloc[0]["full"] > 0.5


def test_same_time_on_every_topology_is_explained():
    def program(comm):
        lk.compute(seconds=1e-2)
        comm.Barrier()

    es = [explained(program, spec) for spec in ("star:16", "torus:4x4", "fattree:4x4:1x2:1x1")]
    said = lk.contrast(es).reading()
    assert "which all these machines share" in said
    assert "No link was used up" in es[0].reading()


def test_small_messages_on_a_long_way_are_held_by_latency():
    def program(comm):
        comm.Allreduce(np.ones(1), np.empty(1))

    e = explained(program, "star:16,lat=1ms")
    assert e.totals().index[0] == LATENCY


def test_run_that_was_not_recorded_is_refused():
    with raises_code(DataError, "not-recorded", "trace=True"):
        lk.run(steps, 2, "star").explain()
    with raises_code(DataError, "not-enough-data"):
        lk.contrast([explained(steps, "star:16")])
    run = lk.run(steps, 4, "star", trace=True)
    with raises_code(DataError, "wrong-type", "labkit.contrast"):
        lk.contrast(run, "star")
    with raises_code(DataError, "not-recorded", "trace=True"):
        lk.contrast(run, lk.run(steps, 4, "star"))


def test_runs_are_put_side_by_side_as_they_are_or_in_a_list():
    one, two = (lk.run(steps, 4, on, trace=True) for on in ("star", "torus:4"))
    said = lk.contrast([one.explain(), two.explain()]).reading()
    assert lk.contrast(one, two).reading() == lk.contrast([one, two]).reading() == said


def test_explanation_shows_itself():
    e = explained(steps, "torus:4x4")
    text, html = repr(e), e._repr_html_()
    assert "talk:" in text
    assert "torus links along" in html
    assert json.loads(json.dumps(e.record()))["is_exact"] is True
    other = explained(steps, "star:16")
    assert "<b>makespan</b>" in lk.contrast([e, other, other])._repr_html_()


def test_run_that_sends_nothing_and_one_that_takes_no_time():
    e = explained(lambda comm: lk.compute(seconds=1.0), "star:16")
    assert e.links.empty
    assert e.totals()[COMPUTATION] == pytest.approx(1.0)
    with raises_code(DataError, "no-data"):
        plot.utilisation(e)
    assert "took no time" in explained(lambda comm: None, "star:16").reading()


@pytest.mark.parametrize(
    "machine",
    ["star:16", "torus:4x4", "fattree:4x4:1x2:1x1", "torus:16", "dragonfly:2x1:2x1:2x1:2"],
)
def test_figures_read_like_the_explanation(machine):
    e = explained(steps, machine)
    first = e.links.sort_values("utilisation", ascending=False).iloc[0]
    heat = plot.heat(e)
    assert f"{first['utilisation']:.0%}" in heat.reading
    assert str(e.links.iloc[0]["link"]) in plot.utilisation(e).reading
    path = plot.critical_path(e)
    assert f"in {len(e.path)} steps" in path.reading
    for figure in (heat, path):
        assert "<svg" in figure.to_page() or "bokeh" in figure.to_page().lower()


def test_machine_too_large_to_be_drawn_is_refused():
    def program(comm):
        comm.Barrier()

    e = lk.run(program, 700, "star:700", trace=True).explain()
    with raises_code(DataError, "out-of-range"):
        plot.heat(e)
    assert plot.utilisation(e).reading


def test_innermost_phase_counts():
    def program(comm):
        lk.compute(seconds=1.0)
        with lk.phase("outer"):
            lk.compute(seconds=1.0)
            with lk.phase("inner"):
                lk.compute(seconds=1.0)
            lk.compute(seconds=1.0)

    clock = PhaseClock(lk.run(program, 1, "star").phases)
    pieces = [(NO_PHASE, 0, 1), ("outer", 1, 2), ("inner", 2, 3), ("outer", 3, 4)]
    assert clock.pieces(0, 0.0, 4.0) == pieces
    assert clock.pieces(0, 2.5, 3.5) == [("inner", 2.5, 3.0), ("outer", 3.0, 3.5)]
    assert clock.at(7, 1.0) == NO_PHASE


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("down 0", "links into hosts"),
        ("backbone", "the backbone"),
        ("host 3 -> switch 1.0", "links out of hosts"),
        ("switch 1.0 -> host 3", "links into hosts"),
        ("switch 2.1 -> switch 1.0, cable 1", "links from level 2 down to level 1"),
        ("switch 1.0 - switch 2.1", "cables between levels 1 and 2"),
        ("host 3 - switch 1.0", "links of hosts, both ways"),
        ("0 - 1 (d4)", "torus links along d4"),
        ("limiter of host 3", "limiters"),
        ("host 3 -> router 0.0.1", "links out of hosts"),
        ("router 0.0.1 - host 3", "links of hosts, both ways"),
        ("router 0.0.0 -> router 0.0.1, green", "green links, within a chassis"),
        ("router 1.0.0 - router 0.1.0, blue", "blue links, between groups"),
        ("wan17", "wan#"),
    ],
)
def test_kinds_of_links(name, kind):
    assert kind_of(name) == kind


def test_command_line_explains(tmp_path, monkeypatch, capsys):
    from labkit.cli.main import main

    script = tmp_path / "prog.py"
    script.write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "-n", "4", "--explain", "--json", str(script)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["explanation"]["reasons"]
