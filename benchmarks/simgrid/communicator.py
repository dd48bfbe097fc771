"""A message program by the simulated communicator's own calls: collectives on any group, probes.

The text is interpret.c's; what `tests.support.message_program` knows is run by that, without ranks in Python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import labkit as lk
from labkit import MPI
from labkit.machines.models import NetworkModel
from labkit.machines.platform import Platform
from labkit.program import context
from labkit.sim.rank_context import RankContext

__all__ = ["marks_of", "needs_communicator"]

Buffer = NDArray[np.uint8]
PROBLEMS = (
    "barrier", "bcast", "allreduce", "reduce_scatter_block", "reduce", "scan", "exscan", "allgatherv",
    "allgather", "alltoallv", "alltoall", "gatherv", "gather", "scatterv", "scatter",
)  # fmt: skip


def needs_communicator(program: str) -> bool:
    """Whether a program has what the native interpreter has not."""
    return re.search(r"\b(until|iprobe|comm|\w+@\d+)\b", program) is not None


def _any(value: int, anything: int) -> int:
    return anything if value < 0 else value


class Rank:
    """One rank's operations, each a call of mpi4py's; marks read a clock that costs nothing (wtime_s = 0)."""

    def __init__(self, comm: Any) -> None:
        self.world = self.comm = comm
        self.comms: dict[int, Any] = {}
        self.slots: dict[int, Any] = {}
        self.marks: list[float] = []

    def do(self, text: str) -> None:
        """Carry out one operation."""
        word, *operands = text.split()
        name, _, slot = word.partition("@")
        self.comm = self.comms[int(slot)] if slot else self.world
        collective = next((problem for problem in PROBLEMS if name.startswith(problem)), name)
        getattr(self, collective)(*map(int, operands))

    # --- time -------------------------------------------------------------------------------------

    def sleep(self, ns: float) -> None:
        machine = context.current()
        assert isinstance(machine, RankContext)
        machine.sleep(ns / 1e9)

    def compute(self, ns: int) -> None:
        lk.compute(seconds=ns / 1e9)

    def until(self, ns: int) -> None:
        left_s = ns * 1e-9 - MPI.Wtime()
        if left_s > 0:
            self.sleep(left_s * 1e9)

    def mark(self) -> None:
        self.marks.append(MPI.Wtime())

    def wtime(self) -> None:
        raise NotImplementedError("marks ask a free clock here")

    # --- messages ---------------------------------------------------------------------------------

    def send(self, dst: int, tag: int, size: int) -> None:
        self.comm.Send(_bytes(size), dst, tag)

    def ssend(self, dst: int, tag: int, size: int) -> None:
        self.comm.Ssend(_bytes(size), dst, tag)

    def isend(self, slot: int, dst: int, tag: int, size: int) -> None:
        self.slots[slot] = self.comm.Isend(_bytes(size), dst, tag)

    def issend(self, slot: int, dst: int, tag: int, size: int) -> None:
        self.slots[slot] = self.comm.Issend(_bytes(size), dst, tag)

    def recv(self, src: int, tag: int, size: int) -> None:
        self.comm.Recv(_bytes(size), _any(src, MPI.ANY_SOURCE), _any(tag, MPI.ANY_TAG))

    def irecv(self, slot: int, src: int, tag: int, size: int) -> None:
        self.slots[slot] = self.comm.Irecv(_bytes(size), _any(src, MPI.ANY_SOURCE), _any(tag, MPI.ANY_TAG))

    def iprobe(self, src: int, tag: int) -> None:
        while not self.comm.Iprobe(_any(src, MPI.ANY_SOURCE), _any(tag, MPI.ANY_TAG)):
            pass

    def sendrecv(self, dst: int, stag: int, out: int, src: int, rtag: int, size: int) -> None:
        source, tag = _any(src, MPI.ANY_SOURCE), _any(rtag, MPI.ANY_TAG)
        self.comm.Sendrecv(_bytes(out), dst, stag, _bytes(size), source, tag)

    def wait(self, slot: int) -> None:
        self.slots[slot].Wait()

    def waitall(self, *slots: int) -> None:
        MPI.Request.Waitall([self.slots[slot] for slot in slots])

    def waitany(self, *slots: int) -> None:
        MPI.Request.Waitany([self.slots[slot] for slot in slots])

    def test(self, slot: int) -> None:
        while not self.slots[slot].Test():
            pass

    # --- collectives ------------------------------------------------------------------------------

    def make_comm(self, slot: int, *members: int) -> None:
        self.comms[slot] = self.world.Create_group(self.world.Get_group().Incl(members), slot)

    def barrier(self) -> None:
        self.comm.Barrier()

    def bcast(self, size: int, root: int) -> None:
        self.comm.Bcast(_bytes(size), root)

    def allreduce(self, size: int) -> None:
        self.comm.Allreduce(_bytes(size), _bytes(size), MPI.BOR)

    def reduce(self, size: int, root: int) -> None:
        self.comm.Reduce(_bytes(size), _bytes(size), MPI.BOR, root)

    def reduce_scatter_block(self, size: int) -> None:
        self.comm.Reduce_scatter_block(_bytes(size * self.comm.size), _bytes(size), MPI.BOR)

    def scan(self, size: int) -> None:
        self.comm.Scan(_bytes(size), _bytes(size), MPI.BOR)

    def exscan(self, size: int) -> None:
        self.comm.Exscan(_bytes(size), _bytes(size), MPI.BOR)

    def allgather(self, size: int) -> None:
        self.comm.Allgather(_bytes(size), _bytes(size * self.comm.size))

    def alltoall(self, size: int) -> None:
        self.comm.Alltoall(_bytes(size * self.comm.size), _bytes(size * self.comm.size))

    def gather(self, size: int, root: int) -> None:
        self.comm.Gather(_bytes(size), _bytes(size * self.comm.size), root)

    def scatter(self, size: int, root: int) -> None:
        self.comm.Scatter(_bytes(size * self.comm.size), _bytes(size), root)

    def gatherv(self, size: int, step: int, root: int) -> None:
        counts = self.counts(size, step)
        self.comm.Gatherv(_bytes(counts[self.comm.rank]), [_bytes(sum(counts)), counts], root)

    def scatterv(self, size: int, step: int, root: int) -> None:
        counts = self.counts(size, step)
        self.comm.Scatterv([_bytes(sum(counts)), counts], _bytes(counts[self.comm.rank]), root)

    def allgatherv(self, size: int, step: int) -> None:
        counts = self.counts(size, step)
        self.comm.Allgatherv(_bytes(counts[self.comm.rank]), [_bytes(sum(counts)), counts])

    def alltoallv(self, size: int, step: int) -> None:
        p, own = self.comm.size, self.comm.rank
        to = [size + step * ((own + 2 * rank) % p) for rank in range(p)]
        from_ = [size + step * ((rank + 2 * own) % p) for rank in range(p)]
        self.comm.Alltoallv([_bytes(sum(to)), to], [_bytes(sum(from_)), from_])

    def counts(self, size: int, step: int) -> list[int]:
        return [size + step * rank for rank in range(self.comm.size)]


def _bytes(size: int) -> Buffer:
    return np.zeros(size, dtype=np.uint8)


def rank_program(comm: Any, lines: dict[str, str]) -> list[float]:
    """What every rank runs."""
    rank = Rank(comm)
    for text in lines.get(str(comm.rank), lines.get("*", "")).split(";"):
        if text.strip():
            rank.do(text.replace("comm ", "make_comm ", 1) if text.split()[0] == "comm" else text)
    return rank.marks


def marks_of(
    program: str, ranks: int, machine: Platform, model: NetworkModel, algorithms: Mapping[str, str]
) -> tuple[NDArray[np.float64], int]:
    """Every rank's marks, one after the other, and how many messages there were; collective -> algorithm."""
    lines = dict(line.split(":", 1) for line in program.strip().splitlines())
    free_clock = replace(model, wtime_s=0.0)
    run = lk.run(
        rank_program, ranks, on=machine, model=free_clock, coll=dict(algorithms), args=(lines,), isolate=False
    )
    return np.concatenate(run.results), run.messages
