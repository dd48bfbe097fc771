"""LogGP's formulas against the engine, and its parameters found again by measuring."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit.calibration import fit_loggp, measure_round_trips, predicted_round_trips
from labkit.errors import DataError
from labkit.machines import models
from labkit.models import LogGP
from tests.support.refusals import raises_code

NETS = [
    LogGP(latency_s=5e-6, overhead_s=2e-6, gap_s=3e-6, gap_per_byte_s=1e-9),
    LogGP(latency_s=1e-6, overhead_s=4e-6, gap_s=0.0, gap_per_byte_s=1e-9),
    LogGP(latency_s=20e-6, overhead_s=0.0, gap_s=1e-6, gap_per_byte_s=5e-10),
]


def machine(net: LogGP) -> models.NetworkModel:
    return models.get("loggps", **net.options())


def train(comm, messages: int, size: int) -> None:
    for _ in range(messages):
        if comm.rank == 0:
            comm.Send(bytearray(size), dest=1)
        else:
            comm.Recv(bytearray(size), source=0)


def broadcast(comm, size: int) -> None:
    comm.Bcast(bytearray(size))


@pytest.mark.parametrize("net", NETS)
def test_the_formulas_are_what_the_engine_does(net):
    model = machine(net)
    for size in (1, 4000):
        for messages in (1, 2, 7):
            time = lk.run(train, 2, "star:2", args=(messages, size), model=model).makespan_s
            assert net.train_s(messages, size) == pytest.approx(time, rel=1e-9)
        for p in (1, 2, 3, 4, 5, 7, 8, 16):
            for name, formula in (("linear", net.linear_bcast_s), ("binomial", net.binomial_bcast_s)):
                run = lk.run(broadcast, p, "star", args=(size,), model=model, coll={"bcast": name})
                assert formula(p, size) == pytest.approx(run.makespan_s, rel=1e-9), (name, p)
                assert net.best_bcast_s(p, size) <= formula(p, size) * (1 + 1e-12)


def test_the_best_tree_is_the_one_of_karp_and_others():
    """Their figure 3: P = 8, L = 6, g = 4, o = 2: all know at 24."""
    assert LogGP(6.0, 2.0, 4.0).best_bcast_s(8, 0) == 24.0


@pytest.mark.parametrize("seed", range(12))
def test_planted_parameters_are_found_again(seed):
    rng = np.random.default_rng(seed)
    latency, overhead, gap = rng.uniform(1e-6, 2e-5, 3)
    net = LogGP(float(latency), float(overhead), float(gap), float(10 ** rng.uniform(-9.5, -8)))
    table = measure_round_trips("star:2", model=machine(net), repeats=1)
    found = fit_loggp(table)
    assert predicted_round_trips(table, found).to_numpy() == pytest.approx(
        table["seconds"].to_numpy(), rel=1e-6
    )
    assert found.overhead_s == pytest.approx(net.overhead_s, rel=1e-6)
    assert found.gap_per_byte_s == pytest.approx(net.gap_per_byte_s, rel=1e-6)
    assert found.latency_s == pytest.approx(net.latency_s, rel=1e-6)
    assert found.gap_s == pytest.approx(net.gap_s, rel=1e-6)


def test_a_gap_that_no_message_shows_is_no_gap():
    net = LogGP(latency_s=3e-6, overhead_s=50e-6, gap_s=4e-6, gap_per_byte_s=1e-10)
    table = measure_round_trips("star:2", model=machine(net), repeats=1)
    found = fit_loggp(table)
    assert found.gap_s == 0
    assert found.gap_per_byte_s == pytest.approx(1e-10, rel=1e-6)
    assert predicted_round_trips(table, found).to_numpy() == pytest.approx(
        table["seconds"].to_numpy(), rel=1e-6
    )


def test_rows_and_numbers_that_do_not_do_are_refused():
    table = measure_round_trips("star:2", [100, 200], model=machine(NETS[0]), repeats=1)
    for wrong in (table[table["bytes"] == 100], table[table["messages"] == 1], table[table["delay_s"] == 0]):
        with raises_code(DataError, "not-enough-data"):
            fit_loggp(wrong)
    with raises_code(DataError, "out-of-range"):
        measure_round_trips("star:2", [100], messages=1)
    with raises_code(DataError, "out-of-range", "gap_s", "0"):
        LogGP(1e-6, 1e-6, -1e-6)


@pytest.mark.mpi
def test_real_mpi_has_parameters_too():
    found = fit_loggp(measure_round_trips("mpi", [1, 512, 1024, 2048], repeats=3))
    assert 0 < found.overhead_s < 1
    assert found.message_s(1000) > 0
