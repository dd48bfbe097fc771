"""Schedules as MSCCL's XML, for GPUs: one thread block for each pair of peers that a GPU talks to.

A step of a thread block is s (send), r (receive), rrc (receive, reduce, copy), cpy or re (reduce); it may
depend on one step of another thread block; nop waits for more.
The form is that of MSCCLang (M. Cowan, S. Maleki, M. Musuvathi, O. Saarikivi, Y. Xiong, ASPLOS 2023,
doi:10.1145/3575693.3575724).
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field

from labkit.errors import ScheduleError
from labkit.plain import replace_file
from labkit.schedule import Kind, Schedule, block_indices
from labkit.schedule.step import NO_BUFFER, Blocks, Op

__all__ = ["write_msccl"]

_NAMES = {
    "allgather": "allgather", "allreduce": "allreduce", "alltoall": "alltoall", "bcast": "broadcast",
    "reduce": "reduce", "reduce_scatter_block": "reduce_scatter",
}  # fmt: skip


@dataclass
class _Step:
    kind: str
    source: tuple[str, int]
    target: tuple[str, int]
    count: int
    after: list[tuple[int, int]] = field(default_factory=list)
    is_needed: bool = False


def write_msccl(path: str | os.PathLike[str], schedule: Schedule) -> None:
    """Write a schedule.

    Parameters
    ----------
    path : path
    schedule : Schedule

    Raises
    ------
    ScheduleError
        A collective that the form does not have.
    """
    name = schedule.problem.name
    if name not in _NAMES:
        raise ScheduleError(f"MSCCL's form has {', '.join(_NAMES)}; not {name}")
    p, parts = schedule.size, schedule.parts
    per_loop = parts if schedule.problem.layout == "split" else parts * p
    root = ET.Element(
        "algo", name=f"labkit-{name}-{p}", proto="Simple", nchannels="1", nchunksperloop=str(per_loop),
        ngpus=str(p), coll=_NAMES[name], inplace="0", outofplace="1", minBytes="0", maxBytes="0",
    )  # fmt: skip
    for rank in range(p):
        _Gpu(schedule, rank).write(root)
    ET.indent(root, " ")
    replace_file(path, ET.tostring(root, encoding="unicode") + "\n")


class _Gpu:
    """One rank's program as thread blocks; what touches the same chunks keeps its order."""

    def __init__(self, schedule: Schedule, rank: int) -> None:
        self.schedule, self.rank = schedule, rank
        self.counts = schedule.n_blocks(rank)
        self.blocks: dict[tuple[int, int], int] = {}  #: (send peer, receive peer) -> number
        self.steps: list[list[_Step]] = []
        self.last_write: dict[tuple[str, int], tuple[int, int]] = {}
        self.reads: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.scratch: dict[int, int] = {}
        used = 0
        for number, buffer in enumerate(schedule.buffers):
            if buffer.is_temporary:
                self.scratch[number] = used
                used += self.counts[number]
        self.scratch_chunks = used
        for op in schedule.program(rank):
            if op.kind is not Kind.WAIT:
                self._add(op)

    def _place(self, section: Blocks) -> list[tuple[str, int]]:
        if section.buffer == NO_BUFFER:
            return []
        name = self.schedule.buffers[section.buffer].name
        letter = {"send": "i", "recv": "o", "data": "o"}.get(name, "s")
        shift = self.scratch.get(section.buffer, 0)
        chosen = block_indices(*section[1:], self.counts[section.buffer])
        return [(letter, int(b) + shift) for b in chosen]

    def _block(self, op: Op) -> int:
        key = (op.peer, -1) if op.kind.is_send else (-1, op.peer) if op.kind.is_receive else (-1, -1)
        if key not in self.blocks:
            self.blocks[key] = len(self.steps)
            self.steps.append([])
        return self.blocks[key]

    def _add(self, op: Op) -> None:
        number, target = self._block(op), self._place(op.section)
        source = self._place(op.source)
        is_local = op.kind in (Kind.COPY, Kind.COMBINE)
        for k, place in enumerate(target):
            other = source[k] if is_local else place
            word = (
                "s"
                if op.kind.is_send
                else "r"
                if op.kind.is_receive
                else "cpy"
                if op.kind is Kind.COPY
                else "re"
            )
            read = [other] if is_local else [place] if op.kind.is_send else []
            written = [] if op.kind.is_send else [place]
            before = {self.last_write[x] for x in (*read, *written) if x in self.last_write}
            for x in written:
                before |= set(self.reads.get(x, ()))
            here = (number, len(self.steps[number]))
            needed = sorted(one for one in before if one[0] != number)
            for one in needed[:-1]:  # a step depends on one other: further ones are waited for before it
                self.steps[number].append(_Step("nop", ("i", -1), ("o", -1), 0, [one]))
                here = (number, len(self.steps[number]))
            self.steps[number].append(_Step(word, other, place, 1, needed[-1:]))
            for x in read:
                self.reads.setdefault(x, []).append(here)
            for x in written:
                self.last_write[x] = here
                self.reads[x] = []

    def write(self, root: ET.Element) -> None:
        sizes = {
            letter: max(
                (self.counts[i] for i, b in enumerate(self.schedule.buffers) if b.name in names), default=0
            )
            for letter, names in (("i", ("send",)), ("o", ("recv", "data")))
        }
        gpu = ET.SubElement(
            root, "gpu", id=str(self.rank), i_chunks=str(sizes["i"]), o_chunks=str(sizes["o"]),
            s_chunks=str(self.scratch_chunks),
        )  # fmt: skip
        for steps in self.steps:
            for step in steps:
                for block, at in step.after:
                    self.steps[block][at].is_needed = True
        for (to, source), number in self.blocks.items():
            tb = ET.SubElement(gpu, "tb", id=str(number), send=str(to), recv=str(source), chan="0")
            for at, step in enumerate(self.steps[number]):
                block, dep = step.after[0] if step.after else (-1, -1)
                ET.SubElement(
                    tb, "step", s=str(at), type=step.kind, srcbuf=step.source[0], srcoff=str(step.source[1]),
                    dstbuf=step.target[0], dstoff=str(step.target[1]), cnt=str(step.count), depid=str(block),
                    deps=str(dep), hasdep=str(int(step.is_needed)),
                )  # fmt: skip
