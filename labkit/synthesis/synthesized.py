"""The result of a synthesis: a schedule, its proof, its simulated time, and the lower bound.

Schedules as MSCCL's XML, for GPUs: one thread block for each pair of peers that a GPU talks to.

A step of a thread block is s (send), r (receive), rrc (receive, reduce, copy), cpy or re (reduce); it may
depend on one step of another thread block; nop waits for more.
The form is that of MSCCLang (M. Cowan, S. Maleki, M. Musuvathi, O. Saarikivi, Y. Xiong, ASPLOS 2023,
doi:10.1145/3575693.3575724).
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from labkit.errors import ScheduleError
from labkit.machines.platform import Platform
from labkit.plot_backend import draw
from labkit.schedule import Kind, Proof, Schedule, block_indices, execute
from labkit.schedule.count import count
from labkit.schedule.step import NO_BUFFER, Blocks, Op
from labkit.sim.replay import write_goal
from labkit.sim.schedules import Simulated, simulate
from labkit.synthesis.attempts import Attempt
from labkit.synthesis.bounds import LowerBound
from labkit.synthesis.programs import TransferPlan
from labkit.text import html as markup
from labkit.text.files import replace_file
from labkit.text.html import quantity
from labkit.text.units import number_of_ranks

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["Synthesized"]

#: of more ranks the one-port rounds are not counted: that looks at every operation
_MOST_COUNTED = 64


_NAMES = {
    "allgather": "allgather",
    "allreduce": "allreduce",
    "alltoall": "alltoall",
    "bcast": "broadcast",
    "reduce": "reduce",
    "reduce_scatter_block": "reduce_scatter",
}


@dataclass
class _Step:
    kind: str
    source: tuple[str, int]
    target: tuple[str, int]
    count: int
    after: list[tuple[int, int]] = field(default_factory=list)
    is_needed: bool = False


def write_msccl(path: str | os.PathLike[str], schedule: Schedule) -> None:
    """Write a schedule."""
    name = schedule.problem.name
    if name not in _NAMES:
        raise ScheduleError(f"MSCCL's form has {', '.join(_NAMES)}; not {name}")
    p, parts = schedule.size, schedule.parts
    per_loop = parts if schedule.problem.layout == "split" else parts * p
    root = ET.Element(
        "algo",
        name=f"labkit-{name}-{p}",
        proto="Simple",
        nchannels="1",
        nchunksperloop=str(per_loop),
        ngpus=str(p),
        coll=_NAMES[name],
        inplace="0",
        outofplace="1",
        minBytes="0",
        maxBytes="0",
    )
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
            root,
            "gpu",
            id=str(self.rank),
            i_chunks=str(sizes["i"]),
            o_chunks=str(sizes["o"]),
            s_chunks=str(self.scratch_chunks),
        )
        for steps in self.steps:
            for step in steps:
                for block, at in step.after:
                    self.steps[block][at].is_needed = True
        for (to, source), number in self.blocks.items():
            tb = ET.SubElement(gpu, "tb", id=str(number), send=str(to), recv=str(source), chan="0")
            for at, step in enumerate(self.steps[number]):
                block, dep = step.after[0] if step.after else (-1, -1)
                ET.SubElement(
                    tb,
                    "step",
                    s=str(at),
                    type=step.kind,
                    srcbuf=step.source[0],
                    srcoff=str(step.source[1]),
                    dstbuf=step.target[0],
                    dstoff=str(step.target[1]),
                    cnt=str(step.count),
                    depid=str(block),
                    deps=str(dep),
                    hasdep=str(int(step.is_needed)),
                )


@dataclass(frozen=True, eq=False)
class Synthesized:
    """A collective made for one machine.

    `schedule`: As any other: to be checked, simulated, drawn, executed.
    `platform`: The machine with the ranks of the collective on it, rank 0 first.
    `ranks`: The machine's ranks that take part: rank i of the schedule is `ranks[i]` of the machine.
    `model`: The network model that it was made for.
    `n_bytes`: The message of a bcast or reduction, one block of the others.
    `time_s`: Simulated, all ranks entering together.
    `bound`: What no schedule undercuts.
    `method`: How it was found.
    `tried`: What else was tried, with its simulated seconds.
    `plan`: The messages with their planned times.
    """

    schedule: Schedule
    platform: Platform
    ranks: tuple[int, ...]
    model: Any
    n_bytes: int
    proof: Proof
    time_s: float
    bound: LowerBound
    method: str
    tried: Sequence[tuple[str, float]]
    plan: TransferPlan

    @property
    def ratio(self) -> float:
        """Simulated time by lower bound, 1 or more; 1 where nothing is to be done."""
        return self.time_s / self.bound.seconds if self.bound.seconds > 0 else 1.0

    @cached_property
    def rounds(self) -> int:
        """Messages one after another on the longest chain: each carries what the one before it brought."""
        come: dict[tuple[int, int], list[tuple[float, int]]] = {}
        longest = 0
        for one in self.plan.transfers:
            until = one.begin_s * (1 + 1e-9) + 1e-12
            here = [come.get((one.source, chunk), ()) for chunk in one.chunks]
            depth = 1 + max((d for some in here for end, d in some if end <= until), default=0)
            longest = max(longest, depth)
            for chunk in one.chunks:
                come.setdefault((one.destination, chunk), []).append((one.end_s, depth))
        return longest

    @cached_property
    def simulated(self) -> Simulated:
        """The simulation: messages, bytes, when each rank was through."""
        return self.simulate()

    def simulate(self, on: object = None, model: object = None, n_bytes: int | None = None) -> Simulated:
        """Simulate the schedule, here or elsewhere.

        `on`: Default: the machine that it was made for.
        `model`, `n_bytes`: Default: those that it was made for.
        """
        machine = self.platform if on is None else on
        network = self.model if model is None and on is None else model
        return simulate(
            self.schedule,
            machine,
            network,
            n_bytes=self.n_bytes if n_bytes is None else n_bytes,
            symmetry=False,
        )

    def execute(self, comm: Intracomm, **buffers: Any) -> None:
        """Carry it out over a communicator, mpi4py's or a simulated one: `labkit.schedule.execute`.

        `comm`: Of as many ranks as the schedule has.
        `**buffers`: The collective's buffers, and `op` for a reduction.
        """
        execute(comm, self.schedule, **buffers)

    def msccl(self, path: str | os.PathLike[str]) -> None:
        """Write it as MSCCL's XML: GPUs are ranks, a thread block for each pair of peers.

        Raises ScheduleError: A collective that MSCCL's form does not have.
        """
        write_msccl(path, self.schedule)

    def goal(self, path: str | os.PathLike[str]) -> None:
        """Write its messages as GOAL, for LogGOPSim and similar tools."""
        write_goal(path, self.schedule, n_bytes=self.n_bytes)

    def plot(self, **options: object) -> Any:
        """Draw the messages over time: `labkit.plot.plan`, which takes the options."""
        return draw("plan", self, **options)

    # -- words ---------------------------------------------------------------------------------------
    @property
    def _piece(self) -> str:
        return "a message" if self.schedule.problem.layout == "split" else "a block"

    @property
    def title(self) -> str:
        """What it does, of how many bytes, for which ranks of which machine."""
        problem, p = self.schedule.problem.name, self.schedule.size
        some = f"{number_of_ranks(p)} of {self.platform.name}"
        return f"{problem} of {quantity(self.n_bytes, 'B')} {self._piece} for {some}"

    def __repr__(self) -> str:
        against = f"{self.ratio:.3g} times the lower bound" if self.bound.seconds > 0 else "nothing to send"
        return f"<Synthesized {self.title}: {quantity(self.time_s, 's')}, {against}; see explain()>"

    def explain(self) -> str:
        """Return as text what was found, and what no schedule undercuts."""
        return "\n".join(
            [f"{self.title}, network model {self.model.name}", *(f"  {k:<16} {v}" for k, v in self._rows())]
        )

    def _rows(self) -> list[tuple[str, str]]:
        sim, bound = self.simulated, self.bound
        rows = [
            ("made by", self.method),
            ("chunks", f"{self.schedule.parts} of {self._piece}"),
            ("rounds", f"{self.rounds} messages one after another at most"),
            ("messages", f"{sim.messages:,} with {quantity(sim.bytes, 'B')} in all"),
            ("simulated time", quantity(self.time_s, "s")),
            ("lower bound", f"{quantity(bound.seconds, 's')}: {bound.reason}"),
            ("ratio", f"{self.ratio:.4g}"),
            ("checked", str(self.proof)),
        ]
        if self.schedule.size <= _MOST_COUNTED:
            steps, volume, _ = count(self.schedule, self.n_bytes)
            one_port = f"{steps:g} messages, {quantity(volume, 'B')} one after another with one port each way"
            rows.insert(3, ("one port", one_port))
        if len(self.tried) > 1:
            slowest = max(time for _, time in self.tried)
            rows.append(("tried", f"{len(self.tried)} plans, the slowest {quantity(slowest, 's')}"))
        return rows

    def _repr_html_(self) -> str:
        rows = [(markup.escape(name), markup.escape(text)) for name, text in self._rows()]
        return markup.titled_block(markup.escape(self.title), markup.properties(rows))


def of_attempt(best: Attempt, tried: Sequence[Attempt], **facts: Any) -> Synthesized:
    """Return what the best attempt gives."""
    every = [(one.text, one.time_s) for one in tried]
    return Synthesized(
        best.schedule, time_s=best.time_s, plan=best.plan, tried=every, method=best.text, **facts
    )
