"""The collective player's content, without a widget: a round's messages, and the blocks held after it."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from labkit import registry
from labkit.errors import ScheduleError
from labkit.html import escape, properties, quantity
from labkit.jupyter.explorers.collective_figure import draw_round
from labkit.plot.figure import Figure
from labkit.schedule import check
from labkit.schedule.problem import PROBLEMS
from labkit.schedule.rounds import Rounds, rounds
from labkit.sim.schedules import simulate

__all__ = ["MOST_RANKS", "Prepared", "algorithms", "collectives", "prepare", "round_figure"]

MOST_RANKS = 32


@dataclass(frozen=True)
class Prepared:
    """A collective taken apart.

    Attributes
    ----------
    found : Rounds
    cost : registry.Cost
    formula : str
        The algorithm file's own words about its cost.
    verdict : str
        What the checker says.
    seconds : float
        Simulated.
    n_bytes : int
    on : str
    """

    found: Rounds
    cost: registry.Cost
    formula: str
    verdict: str
    seconds: float
    n_bytes: int
    on: str

    @property
    def buffers(self) -> list[str]:
        """The names of its buffers; a barrier has none but what ranks know."""
        names = [buffer.name for buffer in self.found.schedule.buffers]
        return names or ["who has entered"]

    @property
    def result(self) -> str:
        """The buffer with the result."""
        return next((name for name in ("recv", "data") if name in self.buffers), self.buffers[0])

    def html(self) -> str:
        """Return cost, time and proof as a table."""
        c = self.cost
        counted = f"{c.rounds:g} α + {quantity(c.volume_bytes, 'B')} · β"
        if c.reduced_bytes:
            counted += f" + {quantity(c.reduced_bytes, 'B')} · γ"
        rows = [
            ("cost", escape(self.formula)),
            ("here", counted),
            (f"simulated on {self.on}", f"<b>{quantity(self.seconds, 's')}</b>"),
            ("rounds", f"{len(self.found)} with one port each way"),
            ("checked", escape(self.verdict)),
        ]
        return properties(rows)


def collectives() -> list[str]:
    """Return the collectives that have algorithms as schedules."""
    return list(dict.fromkeys(problem for problem, _ in registry.schedules()))


def algorithms(problem: str) -> list[str]:
    """Return the algorithms of a collective that are schedules."""
    return [name for of, name in registry.schedules() if of == problem]


@lru_cache(maxsize=64)
def prepare(problem: str, name: str, ranks: int, root: int, n_bytes: int, on: str) -> Prepared:
    """Take a collective apart.

    Parameters
    ----------
    problem, name : str
        As in `labkit.registry.get`.
    ranks : int
        At most 32.
    root : int
        Overlooked where the collective has none.
    n_bytes : int
        The message of a bcast, reduction or scan; one block of the others.
    on : str
        The machine that it is simulated on.

    Raises
    ------
    ScheduleError
        Unknown, or not for so many ranks.
    PlatformError
        No such machine.
    """
    if not 1 <= ranks <= MOST_RANKS:
        raise ScheduleError(f"the player shows 1 to {MOST_RANKS} ranks, got {ranks}")
    algorithm = registry.get(problem, name)
    if PROBLEMS[problem].is_rooted and not 0 <= root < ranks:
        raise ScheduleError(f"root {root} is not one of the ranks 0 to {ranks - 1}")
    schedule = algorithm.build(ranks, root if PROBLEMS[problem].is_rooted else 0)
    seconds = simulate(schedule, on, n_bytes=n_bytes).makespan_s
    cost = algorithm.cost(ranks, n_bytes) if algorithm.cost else registry.Cost(0)
    found = rounds(schedule)
    return Prepared(found, cost, _formula(problem, name), str(check(schedule)), seconds, n_bytes, on)


def _formula(problem: str, name: str) -> str:
    """Return the paragraph about the cost from the algorithm's file."""
    text = inspect.getdoc(importlib.import_module(f"labkit.algorithms.{problem}.{name}")) or ""
    found = re.search(r"\*\*Cost\*\*:\s*(.+?)(?:\n\s*\n|\Z)", text, re.DOTALL)
    return " ".join(found[1].replace("``", "").split()) if found else "not stated"


def round_figure(prepared: Prepared, step: int, buffer: str) -> Figure:
    """Draw one round.

    Parameters
    ----------
    prepared : Prepared
    step : int
        0 is the start, before any message; k what happened in round k, and what ranks hold after it.
    buffer : str
        Whose blocks are shown.
    """
    found = prepared.found
    step = min(max(step, 0), len(found))
    schedule = found.schedule
    sent = found.messages[step - 1] if step else []
    label = f"{schedule.problem.name}, {schedule.name}, {schedule.size} ranks"
    if step:
        most = max((len(one.places) for one in sent), default=0)
        size = f" of up to {most} block{'s' if most > 1 else ''}" if most else ""
        when = f"round {step} of {len(found)}: {len(sent)} message{'s' if len(sent) != 1 else ''}{size}"
    else:
        when = f"before the first of {len(found)} rounds"
    done, all_ = _complete(found, step)
    reading = f"{label}, {when}; {done} of {all_} results are complete."
    who = "; ".join(f"{m.source} to {m.destination}" for m in sent[:24])
    alt = f"Ranks on a circle, the round's messages as arrows, and a table of what they hold. {reading}"
    layout = draw_round(found, step, buffer)
    return Figure(layout, reading, f"{alt} Messages: {who or 'none'}.")


def _complete(found: Rounds, step: int) -> tuple[int, int]:
    """How many result blocks are what they must become, and how many there are."""
    schedule = found.schedule
    if not schedule.buffers:
        everybody = (1 << schedule.size) - 1
        return sum(known == everybody for known in found.heard[step]), schedule.size
    done = total = 0
    counts = schedule.n_blocks_of(range(schedule.size))
    for number, buffer in enumerate(schedule.buffers):
        for rank in range(schedule.size):
            for block in range(0 if buffer.is_temporary else int(counts[number][rank])):
                wanted: Any = schedule.wanted(buffer.name, rank, block)
                if wanted is not None:
                    total += 1
                    done += found.states[step][rank].get((number, block)) == wanted
    return done, total
