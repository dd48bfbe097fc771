"""The communicator's calls take SimGrid 3.32's time: the goldens' programs, written with mpi4py's calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.sim import models
from labkit.sim.simulation import running

FOLDER = Path(__file__).parent / "simgrid"
#: Collectives have a test of their own, and the ping-pongs differ only in sizes.
KINDS = {"blocking", "posted", "any", "linear", "self", "zero", "two", "pairs", "exchange", "cores", "iprobe"}
#: Collectives; a clock that costs something; Waitany, which here takes the first of its list that is over.
OTHERS = ("cores-rounds", "cores-calls", "cores-waitany")
FILES = sorted(
    path
    for path in FOLDER.glob("*.json")
    if path.stem.split("-")[0] in KINDS and not path.stem.startswith(OTHERS)
)


class Interpreter:
    """One rank's program, call by call; marks read a clock that costs nothing (wtime_s=0)."""

    def __init__(self, comm: MPI.Comm, largest: int) -> None:
        self.comm = comm
        self.out = np.zeros(largest, dtype=np.uint8)
        self.slots: dict[int, Any] = {}
        self.marks: list[float] = []

    def room(self, size: int) -> np.ndarray:
        return np.empty(size, dtype=np.uint8)

    def sleep(self, ns: int) -> None:
        simulation = running()
        assert simulation is not None
        simulation.context.sleep(ns / 1e9)

    def compute(self, ns: int) -> None:
        lk.compute(seconds=ns / 1e9)

    def iprobe(self, src: int, tag: int) -> None:
        while not self.comm.Iprobe(*any_of(src, tag)):
            pass

    def mark(self) -> None:
        self.marks.append(MPI.Wtime())

    def send(self, dst: int, tag: int, size: int) -> None:
        self.comm.Send(self.out[:size], dst, tag)

    def ssend(self, dst: int, tag: int, size: int) -> None:
        self.comm.Ssend(self.out[:size], dst, tag)

    def isend(self, slot: int, dst: int, tag: int, size: int) -> None:
        self.slots[slot] = self.comm.Isend(self.out[:size], dst, tag)

    def issend(self, slot: int, dst: int, tag: int, size: int) -> None:
        self.slots[slot] = self.comm.Issend(self.out[:size], dst, tag)

    def recv(self, src: int, tag: int, size: int) -> None:
        self.comm.Recv(self.room(size), *any_of(src, tag))

    def irecv(self, slot: int, src: int, tag: int, size: int) -> None:
        self.slots[slot] = self.comm.Irecv(self.room(size), *any_of(src, tag))

    def wait(self, slot: int) -> None:
        self.slots[slot].Wait()

    def waitall(self, *slots: int) -> None:
        MPI.Request.Waitall([self.slots[slot] for slot in slots])

    def waitany(self, *slots: int) -> None:
        MPI.Request.Waitany([self.slots[slot] for slot in slots])

    def test(self, slot: int) -> None:
        while not self.slots[slot].Test():
            pass

    def sendrecv(self, dst: int, stag: int, out: int, src: int, rtag: int, size: int) -> None:
        source, tag = any_of(src, rtag)
        self.comm.Sendrecv(self.out[:out], dst, stag, self.room(size), source, tag)


def any_of(source: int, tag: int) -> tuple[int, int]:
    return (MPI.ANY_SOURCE if source < 0 else source, MPI.ANY_TAG if tag < 0 else tag)


def program(comm: MPI.Comm, lines: dict[str, str], largest: int) -> list[float]:
    interpreter = Interpreter(comm, largest)
    for text in lines.get(str(comm.rank), lines.get("*", "")).split(";"):
        if text.strip():
            name, *words = text.split()
            getattr(interpreter, name)(*map(int, words))
    return interpreter.marks


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_mark_agrees(path: Path) -> None:
    golden = json.loads(path.read_text())
    lines = dict(line.split(":", 1) for line in golden["program"].strip().splitlines())
    run = lk.run(
        program,
        golden["ranks"],
        on=golden["spec"],
        model=models.get(golden["model"], wtime_s=0.0, **golden["options"]),
        args=(lines, 2_000_000),
    )
    ours, theirs = np.concatenate(run.results), np.concatenate(golden["marks_s"])
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
