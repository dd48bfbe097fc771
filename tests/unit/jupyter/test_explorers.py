"""Explorers without a browser: controls are moved, models answer, mistakes become sentences."""

from __future__ import annotations

import asyncio
import base64
import io
import re

import numpy as np
import pytest

import labkit as lk
from labkit import registry

pytest.importorskip("ipywidgets")
pytest.importorskip("anywidget")
pytest.importorskip("jupyter_bokeh")

from labkit.errors import DataError, LabkitError
from labkit.jupyter import explorers
from labkit.jupyter.explorers.sorting_player import INPUTS, inputs, play, sorts
from labkit.jupyter.explorers.topology_explorer import PATTERNS, loads, pairs
from tests.support.refusals import raises_code


def test_they_have_a_short_name() -> None:
    assert lk.explore.topology is explorers.topology


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("hosts", [1, 2, 9, 16])
def test_a_pattern_sends_between_hosts_that_are_there(pattern: str, hosts: int) -> None:
    if pattern == "transpose" and hosts == 2:
        with raises_code(DataError, "out-of-range"):
            pairs(pattern, hosts)
        return
    found = pairs(pattern, hosts, shift=3, seed=5)
    assert found.shape[1] == 2
    assert ((found >= 0) & (found < hosts)).all()
    assert (found[:, 0] != found[:, 1]).all()
    assert len({tuple(row) for row in found.tolist()}) == len(found)
    if pattern == "random pairs" and hosts > 1:
        assert sorted(found[:, 1]) == list(range(hosts)), "everybody receives once"
    if pattern == "halo" and hosts == 16:
        assert (np.bincount(found[:, 0]) == 4).all()


def test_loads_count_the_routes_of_the_machine() -> None:
    built = lk.platform("torus:8").build(1)
    load = loads(built, pairs("shift", 8, shift=3))
    assert load.messages == 8
    assert sum(load.crossed.values()) == 8 * 3
    assert load.hottest[0][1:] == (3, 3 / 1.25e9)
    assert loads(built, pairs("none", 8)).hottest == []


@pytest.mark.slow
def test_the_topology_explorer_follows_its_controls() -> None:
    one = explorers.topology("torus:4x4")
    assert dict(one.view.facts)["diameter"] == "4 links, 4 µs"
    assert dict(one.view.facts)["bisection"].startswith("10 GB/s each way")
    one.set(source=0, target=10)
    assert [link for link, _, _ in one.view.route] == lk.platform("torus:4x4").build(1).route(0, 10)[0]
    one.set(pattern="all to all")
    assert "all to all: 0 -> 1 (+x) carries" in one.view.figure.reading
    one.kind.value = "star"
    assert one.shape.value == "16"
    assert one.view.machine.spec == "star:16"
    one.set(kind="graphene", target=143)
    assert len(one.view.route) == 8
    assert one.pictures()[0].reading == one.view.figure.reading


def test_a_click_chooses_from_and_to() -> None:
    one = explorers.topology("star:6")
    (hosts,) = one.view.figure.layout.select({"name": "hosts"})
    hosts.data_source.selected.indices = [4]
    assert one.source.value == 4
    (hosts,) = one.view.figure.layout.select({"name": "hosts"})
    hosts.data_source.selected.indices = [2]
    assert (one.source.value, one.target.value) == (4, 2)
    assert "From host 4 to host 2" in one.view.figure.reading


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shape": "4y4"}, "'4y4' is not a count"),
        ({"options": "bw=fast"}, "fast"),
    ],
)
def test_a_machine_that_is_none_leaves_the_picture_pale(changes: dict[str, object], said: str) -> None:
    one = explorers.topology("torus:4x4")
    before = one.view
    one.set(**changes)
    assert said in one.problem
    assert one.view is before
    assert not one.is_current
    assert all("labkit-pale" in place._dom_classes for place in one._shown)
    one.set(shape="4x4", options="")
    assert one.problem == ""
    assert not any("labkit-pale" in place._dom_classes for place in one._shown)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shape": ""}, ""),
        ({"target": 16}, "hosts 0 to 15; got a route from 0 to 16"),
        ({"shape": "20x20", "pattern": "all to all"}, "at most 264 hosts are supported"),
        ({"shape": "3x4", "pattern": "transpose"}, "needs a square number of hosts; 12 is not a square"),
        ({"shape": "16x16x16", "target": 4000}, ""),
    ],
)
def test_mistakes_become_one_sentence_and_the_machine_named_is_drawn(
    changes: dict[str, object], said: str
) -> None:
    one = explorers.topology("torus:4x4")
    one.set(**changes)
    assert said in one.problem
    assert "\n" not in one.problem
    assert one.is_current
    shape = changes.get("shape", "4x4")
    assert one.view.machine.spec == (f"torus:{shape}" if shape else "torus:4x2x2")
    assert bool(one.view.load.messages) == (not said and "pattern" in changes)
    one.set(shape="4x4", options="", source=0, target=1, pattern="none")
    assert one.problem == ""


@pytest.mark.parametrize("hosts", [1, 2, 12, 16, 300])
@pytest.mark.slow
def test_a_pattern_is_greyed_out_where_it_cannot_be(hosts: int) -> None:
    one = explorers.topology(f"star:{hosts}")
    for pattern in PATTERNS:
        one.set(pattern=pattern, target=0)
        is_refused = pattern in one.pattern.refused
        assert bool(one.problem) == (is_refused and hosts > 1)
        assert bool(one.view.load.messages) == (pattern != "none" and not is_refused)
    one.set(shape="16", pattern="none")
    assert one.pattern.refused == {}


def test_machines_made_by_hand_can_be_explored() -> None:
    one = explorers.topology(lk.graph([("a", "b"), ("b", "c")], hosts=["a", "b", "c"]))
    one.set(target=2)
    assert len(one.view.route) == 2
    assert one.problem == ""


def test_a_burst_of_changes_is_answered_once() -> None:
    one = explorers.topology("star:64")
    seen = []
    one.compute, compute = lambda: (seen.append(one.target.value), compute()), one.compute

    async def burst() -> None:
        for i in range(2, 40):
            one.target.value = i
        await asyncio.sleep(0.4)

    asyncio.run(burst())
    assert seen == [39]


def test_the_collective_player_steps_through_rounds() -> None:
    player = explorers.collective("allreduce", "ring", ranks=4)
    assert (player.step.value, player.step.max, player.play.max) == (0, 6, 6)
    player.step.value = 6
    assert "round 6 of 6: 4 messages of up to 1 block; 16 of 16 results are complete" in player.figure.reading
    assert player.prepared.verdict.startswith("proved")
    assert "2(p-1)*alpha" in player.prepared.html()
    player.set(ranks=13, step=20)
    assert player.step.value == 20, "the rounds of 13 ranks"


@pytest.mark.parametrize(
    "problem",
    ["barrier", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bcast", "scan", "gatherv"))],
)
def test_every_algorithm_of_a_collective_can_be_played(problem: str) -> None:
    player = explorers.collective("allgather", "ring", ranks=5)
    player.problem_name.value = problem
    for name in player.algorithm.options:
        unmet = registry.get(problem, name).requirements.unmet(4)
        player.set(algorithm=name, ranks=2 if unmet else 4, step=99)
        assert player.problem == ""
        done, total = player.figure.reading.split("; ")[1].split(" results")[0].split(" of ")
        assert done == total, "the last round completes it"


def test_what_a_player_cannot_play_is_said() -> None:
    player = explorers.collective("bcast", "binomial", ranks=8)
    player.set(root=7, step=1)
    assert player.problem == ""
    player.set(ranks=4)
    assert "root 7 is not one of the ranks 0 to 3" in player.problem
    player.set(root=0, machine="sun")
    assert "'sun' is neither" in player.problem
    player.set(machine="star:2")
    assert "4 ranks do not fit" in player.problem


def test_a_moved_point_moves_model_and_verdict() -> None:
    one = explorers.model([16, 32, 64, 128, 256], [1e-5 * p for p in (16, 32, 64, 128, 256)], "p")
    assert one.fitted.verdict.match == "exact"
    assert "in proportion to p; from 256 to 512, 2 times as much" in one.fitted.html()
    for i, p in enumerate((16, 32, 64, 128, 256)):
        one.move(i, 1e-6 * p**2)
    assert one.fitted.verdict.match == "none"
    assert str(one.fitted.model.term) == "p^2"
    np.testing.assert_allclose(one._line.data["y"], one.fitted.model.predict(one._line.data["x"]))
    one.set(expectation="p^2")
    assert one.fitted.verdict.match == "exact"
    one.reset.click()
    assert str(one.fitted.model.term) == "p"


def test_a_dragged_point_stays_above_its_rank_and_is_never_lost() -> None:
    one = explorers.model()
    x, y = (values.tolist() for values in one.points)
    one.source.data = {"x": [x[0] * 1.5, *x[1:]], "y": [2 * y[0], *y[1:]]}
    assert one.points[0].tolist() == x
    assert one.points[1].tolist() == [2 * y[0], *y[1:]]
    one.source.data = {"x": x[1:], "y": y[1:]}
    assert one.points[1].tolist() == y


def test_the_keyboard_moves_points_too() -> None:
    one = explorers.model()
    y = one.points[1].tolist()
    one.point.value = 2
    one.factor.value = 1.5
    assert one.points[1][2] == pytest.approx(1.5 * y[2])
    one.point.value = 3
    assert one.factor.value == 1.0
    assert one.points[1][2] == pytest.approx(1.5 * y[2])


def test_what_a_model_cannot_be_made_of_is_said() -> None:
    one = explorers.model()
    one.set(expectation="p +")
    assert one.problem
    assert "\n" not in one.problem
    one.set(expectation="p log p")
    one.move(0, -1.0)
    assert "needs a value above 0" in one.problem
    one.reset.click()
    for name in one.example.options:
        one.example.value = name
        assert one.problem == ""
        assert one.fitted.html()
    with raises_code(DataError, "count-mismatch"):
        explorers.model([1, 2, 3], [1.0])


def test_a_study_can_be_explored() -> None:
    study = lk.sweep(lambda comm: comm.barrier(), ranks=[2, 4, 8, 16, 32], on="star", progress=False)
    one = explorers.model(study, expectation="log p")
    assert one.points[1].tolist() == study.curve().samples.aggregate("quartile").tolist()


@pytest.mark.parametrize("name", sorts())
@pytest.mark.parametrize(("ranks", "per_rank"), [(1, 3), (5, 7)])
def test_no_key_is_lost_and_the_last_step_is_sorted(name: str, ranks: int, per_rank: int) -> None:
    for kind in ("random", "reversed"):
        played = play(name, kind, ranks, per_rank, seed=1)
        n = len(played.steps[0].owner)
        for number, one in enumerate(played.steps):
            assert sorted(np.concatenate(one.keys)) == list(range(n))
            table = played.moved(number)
            assert table.sum() == n
            assert table.sum(axis=0).tolist() == [len(keys) for keys in one.keys]
            assert str(n) in played.reading(number)
        assert np.concatenate(played.steps[-1].keys).tolist() == list(range(n))
        ends = [one.end_s for one in played.steps]
        assert ends[0] == 0
        assert ends[-1] == max(ends)


@pytest.mark.parametrize("kind", INPUTS)
def test_an_input_is_a_permutation(kind: str) -> None:
    given = inputs(kind, 4, 6, 3)
    assert [len(keys) for keys in given] == [6] * 4
    assert sorted(np.concatenate(given)) == list(range(24))


def test_the_sorting_player_steps_through_phases() -> None:
    player = explorers.sorting("sample_sort", ranks=4, per_rank=8, seed=2)
    assert [one.phase for one in player.played.steps][1:] == [
        "agree", "local sort", "splitters", "exchange", "merge"]  # fmt: skip
    player.step.value = 2
    for keys in player.played.steps[2].keys:
        assert (np.diff(keys) > 0).all()
    assert "no key left its rank" in player.figure.reading
    player.set(algorithm="mini_sort", ranks=9, step=3)
    assert player.played.steps[-1].imbalance == 1
    assert player.step.max == len(player.played.steps) - 1
    player.set(machine="ring:4")
    assert player.problem
    player.set(machine="star", ranks=16, per_rank=48, algorithm="radix_sort", step=1)
    assert player.problem == ""
    with raises_code(DataError, "out-of-range", "1", "16", "256", "17"):
        play("radix_sort", ranks=17)


def test_fewer_samples_than_keys_show_imbalance() -> None:
    player = explorers.sorting("sample_sort", ranks=8, per_rank=256, seed=1)
    player.set(step=99)
    even = player.played.steps[-1].imbalance
    assert "no rank ends with more than" in player._facts.value
    found = []
    for share in (1 / 8, 1 / 32):
        player.set(oversampling=share, step=99)
        assert player.problem == ""
        bound = int(re.search(r"more than (\d+) keys", player.played.samples)[1])
        assert max(len(keys) for keys in player.played.steps[-1].keys) <= bound
        found.append(player.played.steps[-1].imbalance)
    assert 1.0 <= even < found[0] < found[1]
    player.set(is_drawn=True, step=99)
    assert player.played.steps[-1].imbalance not in (1.0, found[1])
    assert player.oversampling.layout.display == ""
    player.set(algorithm="radix_sort")
    assert player.oversampling.layout.display == "none"
    assert player.played.samples == ""
    with raises_code(LabkitError, "not-finite", "oversampling"):
        explorers.sorting(oversampling=0)


def test_in_a_terminal_an_explorer_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    one = explorers.collective()
    assert repr(one) == "CollectivePlayer: Collective"
    monkeypatch.setenv("LABKIT_LIVE", "1")
    shown, _ = one._repr_mimebundle_()
    assert shown["text/plain"] == repr(one)


def test_what_stays_of_a_figure_says_where_its_sliders_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")

    def curves(kilobytes: int) -> object:
        def broadcast(comm: lk.MPI.Comm) -> None:
            comm.Bcast(bytearray(1000 * kilobytes), root=0)

        study = lk.sweep(broadcast, [2, 4], "star", progress=False)
        return lk.plot.compare({"star": {"broadcast": study}})

    one = explorers.vary(curves, kilobytes=[1, 8])
    monkeypatch.setenv("LABKIT_LIVE", "0")
    for value in (8, 1):
        one.controls["kilobytes"].value = value
        stays, _ = one._repr_mimebundle_()
        with image.open(io.BytesIO(base64.b64decode(stays["image/png"]))) as picture:
            said = picture.info["Title"], picture.info["Description"]
        assert said[0] == f"kilobytes: {value}. Fastest at 4 ranks: broadcast on star."
        assert said[1].startswith(f"kilobytes: {value}.")


def test_a_figure_of_ones_own_follows_its_sliders() -> None:
    def law(power: int, factor: float) -> object:
        p = [4, 8, 16, 32, 64]
        return lk.plot.scaling(lk.fit(p, [factor * v**power for v in p]))

    one = explorers.vary(law, power=[0, 1, 2], factor=[1.0])
    assert one.figure.reading == "It grows like p."
    one.controls["power"].value = 2
    assert one.figure.reading == "It grows like p²."
    assert one.problem == ""
    assert [figure.reading for figure in one.kept()] == ["power: 2, factor: 1.0."], "the picture says the law"
    with raises_code(DataError, "wrong-type"):
        explorers.vary(lambda a: a, a=[1])
    with raises_code(DataError, "wrong-type"):
        explorers.vary(law)


@pytest.mark.slow
def test_a_recorded_run_is_played_message_by_message() -> None:
    def ring(comm):
        right, left = (comm.rank + 1) % 5, (comm.rank - 1) % 5
        comm.sendrecv(bytes(100 * (comm.rank + 1)), right, sendtag=1_234_567, source=left)
        comm.allreduce(1)

    run = lk.run(ring, ranks=5, on="star", trace=True)
    player = explorers.messages(run)
    assert player.step.max == len(run.trace.messages)
    assert player.figure.reading.endswith(f"before the first of {player.step.max} messages.")
    begun = []
    for step in range(1, player.step.max + 1):
        player.step.value = step
        row = player.found.row(step)
        begun.append(row["start_s"])
        assert f"rank {row['source']:g} sends" in player.figure.reading
        tag = "1234567" if row["context"] == 0 else "none: part of a collective"
        assert re.search(rf">tag<.*>{tag}<", player.found.html(step))
    assert begun == sorted(begun)
    player.set(step=0, rank=3)
    while player.step.value < player.step.max:
        before = player.step.value
        player.go(1)
        if player.step.value == before:
            break
        row = player.found.row(player.step.value)
        assert 3 in (row["source"], row["destination"])
    player.go(-1)
    assert player.problem == ""
    for wrong, code, fact in (
        (lk.run(ring, 5, "star"), "not-recorded", "trace=True"),
        (lk.run(lambda comm: None, 2, "star", trace=True), "no-data", ""),
        (lk.run(lambda comm: comm.barrier(), 65, "star", trace=True), "too-many-ranks", "64"),
        ("run", "wrong-arguments", ""),
    ):
        with raises_code(DataError, code, fact):
            explorers.messages(wrong)


@pytest.mark.parametrize(
    ("call", "code", "fact"),
    [
        (lambda: explorers.topology("torus:4y4"), "malformed-specification", "4y4"),
        (lambda: explorers.collective("allreduce", "quick"), "unknown-name", "quick"),
        (lambda: explorers.collective("sum"), "unknown-name", "sum"),
        (lambda: explorers.collective(ranks=33), "out-of-range", "33"),
        (lambda: explorers.sorting("bogo_sort"), "unknown-name", "bogo_sort"),
        (lambda: explorers.sorting(keys="mixed"), "unknown-name", "random"),
        (lambda: explorers.sorting(on="moon"), "unknown-name", "moon"),
        (lambda: explorers.model([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], "p +"), "malformed-expression", "p +"),
    ],
)
def test_what_a_caller_gives_wrongly_is_the_callers_error(call: object, code: str, fact: str) -> None:
    with raises_code(LabkitError, code, fact):
        call()


def test_the_smallest_of_everything() -> None:
    assert explorers.topology("star:1").view.facts[0] == ("hosts", "1")
    one = explorers.collective("bcast", "binomial", ranks=1)
    assert (one.step.max, one.problem) == (0, "")
    assert explorers.sorting(ranks=1, per_rank=1).problem == ""
