"""What mpi4py gives, accepts and refuses in detail: the same on real MPI and simulated.

Every case yields (what, call) attempts; what an attempt gives or raises must be the same on both machines:
the result itself, or the exception's class and, for MPI's own, its error class. All tables run in one launch
per machine and number of ranks.
"""

from __future__ import annotations

import functools

import pytest

import labkit as lk
from labkit import MPI
from tests.contract.same import (
    collectives,
    constants,
    messages,
    nonblocking,
    reductions,
    requests,
    topologies,
)
from tests.support.same import attempts, differences, outcomes

pytestmark = pytest.mark.mpi

MODULES = (collectives, constants, messages, nonblocking, reductions, requests, topologies)
CASES = {
    (module.__name__.rpartition(".")[2], name): (function, module.CASES.ranks)
    for module in MODULES
    for name, function in module.CASES.items()
}


@functools.cache
def outcome(ranks):
    """What every case with so many ranks notes on both machines."""
    chosen = {key: function for key, (function, wanted) in CASES.items() if ranks in wanted}
    run = outcomes(attempts, chosen)
    return run(ranks, "mpi"), run(ranks, "star")


@pytest.mark.filterwarnings("ignore:the 'buf' argument is deprecated")
@pytest.mark.parametrize(
    ("table", "name", "ranks"), [(*key, ranks) for key, (_, wanted) in CASES.items() for ranks in wanted]
)
def test_both_machines_do_the_same(table, name, ranks):
    assert differences(*outcome(ranks), (table, name)) == []


def hosts(comm):
    shared = comm.Split_type(MPI.COMM_TYPE_SHARED)
    return MPI.Get_processor_name(), shared.rank, shared.size, shared.allgather(comm.rank)


def test_ranks_share_a_host_where_they_are_placed_on_it():
    assert [result[:3] for result in lk.run(hosts, 3, "star:3").results] == [
        (f"host-{k}", 0, 1) for k in range(3)
    ]
    real = lk.run(hosts, 3, "mpi").results
    assert [result[1:] for result in real] == [(k, 3, [0, 1, 2]) for k in range(3)]
