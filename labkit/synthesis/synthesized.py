"""The result of a synthesis: a schedule, its proof, its simulated time, and the lower bound."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from labkit import html as markup
from labkit.html import quantity
from labkit.platform.platform import Platform
from labkit.plot_backend import draw
from labkit.schedule import Proof, Schedule, execute
from labkit.schedule.count import count
from labkit.sim.goal import write_goal
from labkit.sim.schedules import Simulated, simulate
from labkit.synthesis.attempts import Attempt
from labkit.synthesis.bounds import Bound
from labkit.synthesis.msccl import write_msccl
from labkit.synthesis.plan import Plan
from labkit.units import number_of_ranks

__all__ = ["Synthesized"]

#: of more ranks the one-port rounds are not counted: that looks at every operation
_MOST_COUNTED = 64


@dataclass(frozen=True, eq=False)
class Synthesized:
    """A collective made for one machine.

    Attributes
    ----------
    schedule : labkit.schedule.Schedule
        As any other: to be checked, simulated, drawn, executed.
    platform : Platform
        The machine with the ranks of the collective on it, rank 0 first.
    ranks : tuple of int
        The machine's ranks that take part: rank i of the schedule is `ranks[i]` of the machine.
    model : str
        The network model that it was made for.
    n_bytes : int
        The message of a bcast or reduction, one block of the others.
    proof : labkit.schedule.Proof
    time_s : float
        Simulated, all ranks entering together.
    bound : Bound
        What no schedule undercuts.
    method : str
        How it was found.
    tried : list of (str, float)
        What was tried besides, with its simulated seconds.
    plan : Plan
        The messages with their planned times.
    """

    schedule: Schedule
    platform: Platform
    ranks: tuple[int, ...]
    model: Any
    n_bytes: int
    proof: Proof
    time_s: float
    bound: Bound
    method: str
    tried: Sequence[tuple[str, float]]
    plan: Plan

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

    def simulate(self, on: Any = None, model: Any = None, n_bytes: int | None = None) -> Simulated:
        """Simulate the schedule, here or elsewhere.

        Parameters
        ----------
        on : str or Platform, optional
            Default: the machine that it was made for.
        model, n_bytes
            Default: those that it was made for.
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

    def execute(self, comm: Any, **buffers: Any) -> None:
        """Carry it out over a communicator, mpi4py's or a simulated one: `labkit.schedule.execute`.

        Parameters
        ----------
        comm : communicator
            Of as many ranks as the schedule has.
        **buffers
            The collective's buffers, and `op` for a reduction.
        """
        execute(comm, self.schedule, **buffers)

    def msccl(self, path: str | os.PathLike[str]) -> None:
        """Write it as MSCCL's XML: GPUs are ranks, a thread block for each pair of peers.

        Raises
        ------
        ScheduleError
            A collective that MSCCL's form does not have.
        """
        write_msccl(path, self.schedule)

    def goal(self, path: str | os.PathLike[str]) -> None:
        """Write its messages as GOAL, for LogGOPSim and similar tools."""
        write_goal(path, self.schedule, n_bytes=self.n_bytes)

    def plot(self, **options: Any) -> Any:
        """Draw the messages over time: `labkit.plot.plan`, which takes the options.

        Returns
        -------
        labkit.plot.Figure
        """
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
        ]  # fmt: skip
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
        return markup.card(markup.escape(self.title), markup.properties(rows))


def of_attempt(best: Attempt, tried: Sequence[Attempt], **facts: Any) -> Synthesized:
    """Return what the best attempt gives."""
    every = [(one.text, one.time_s) for one in tried]
    return Synthesized(
        best.schedule, time_s=best.time_s, plan=best.plan, tried=every,
        method=best.text, **facts,
    )  # fmt: skip
