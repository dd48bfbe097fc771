"""Sampled computation: run a repeated piece of work a few times, then only charge its mean time.

Like SMPI's ``SMPI_SAMPLE_LOCAL`` and ``SMPI_SAMPLE_GLOBAL``: the first `n` times, the host's CPU time is
measured and charged to the rank; from then on the work is skipped and the mean is charged. Python cannot skip
a ``with`` block, so the piece is the body of a loop that runs once or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from time import thread_time  # the host's, also while ranks read simulated time under its name
from types import TracebackType
from typing import Literal, Protocol, cast

from labkit.errors import ProgramError
from labkit.program import context

__all__ = ["Sample", "sampled"]


@dataclass(slots=True)
class Sample:
    """What is known of one piece of work: runs, sum and squares of their CPU seconds, times left out."""

    runs: int = 0
    sum_s: float = 0.0
    squares: float = 0.0
    skips: int = 0

    def add(self, seconds: float) -> None:
        """Take one more measurement."""
        self.runs += 1
        self.sum_s += seconds
        self.squares += seconds * seconds

    @property
    def mean_s(self) -> float:
        """Mean CPU seconds."""
        return self.sum_s / self.runs

    @property
    def relative_error(self) -> float:
        """Standard error of the mean, as a share of it; infinite for fewer than two runs."""
        if self.runs < 2 or self.sum_s <= 0.0:
            return math.inf if self.runs < 2 else 0.0
        variance = max(0.0, self.squares - self.sum_s**2 / self.runs) / (self.runs - 1)
        return math.sqrt(variance / self.runs) / self.mean_s


class SamplingContext(Protocol):
    """What a simulated machine offers on top of `context.MachineContext`."""

    @property
    def samples(self) -> dict[tuple[str, int], Sample]: ...

    @property
    def switches(self) -> int: ...

    def begin_sample(self) -> None: ...

    def end_sample(self) -> None: ...

    def charge_cpu(self, seconds: float) -> None: ...


class sampled:  # noqa: N801 - reads as a statement: `for _ in lk.sampled("kernel"):`
    """Run a piece of work `n` times, then charge the mean of its CPU times instead.

    Parameters
    ----------
    name : str
        The work's name: what has the same name is taken for the same work.
    n : int
        How often it is run and measured, at least 1.
    over : {"rank", "ranks"}
        Whether each rank runs it so often, or all ranks together.
    threshold : float, optional
        Stop measuring before `n` runs once the standard error of the mean is below this share of it.

    Notes
    -----
    On real MPI, and outside any run, the work is always done and nothing is charged. The results of work
    that was left out are those of an earlier time, or none: a program whose messages depend on them must
    not sample it. A run that sampled has a note about it, and is not deterministic.

    Examples
    --------
    The work as the body of a loop that runs once, or not at all:

    >>> import labkit as lk
    >>> for _ in lk.sampled("stencil", n=5):
    ...     pass

    or as a block that asks:

    >>> with lk.sampled("stencil", n=5) as is_run:
    ...     if is_run:
    ...         pass

    A ``with`` block that does not ask always does its work; from the n-th time on it is charged the mean.
    """

    __slots__ = ("_begin_s", "_machine", "_switches", "n", "name", "over", "threshold")

    def __init__(
        self,
        name: str,
        n: int = 5,
        *,
        over: Literal["rank", "ranks"] = "rank",
        threshold: float | None = None,
    ) -> None:
        name = context.name_of("sampled work", name)
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"sampled work runs a whole number of times from 1 on, got n={n!r}")
        if over not in ("rank", "ranks"):
            raise ValueError(f'over is "rank" or "ranks", got {over!r}')
        if threshold is not None and not 0 < threshold < math.inf:
            raise ValueError(f"a threshold is a share > 0, got {threshold!r}")
        self.name, self.n, self.over, self.threshold = name, n, over, threshold
        self._machine: SamplingContext | None = None
        self._begin_s: float | None = None
        self._switches = 0

    def __enter__(self) -> bool:
        self._machine = _sampling_machine()
        if self._machine is None:
            return True
        sample = self._sample(self._machine)
        is_run = sample.runs < self.n and not (self.threshold and sample.relative_error < self.threshold)
        self._machine.begin_sample()
        self._switches = self._machine.switches
        self._begin_s = thread_time() if is_run else None
        return is_run

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        machine = self._machine
        if machine is None:
            return
        spent = None if self._begin_s is None else thread_time() - self._begin_s
        machine.end_sample()
        is_left = isinstance(error, GeneratorExit)  # by break or return out of the loop that it is
        if error is not None and not (is_left and machine.switches == self._switches):
            return
        if machine.switches != self._switches:
            raise ProgramError(
                f"sampled work {self.name!r} communicated: other ranks ran meanwhile, so its time cannot be "
                "taken; leave messages out of sampled work, and lk.compute where ranks share cores",
                code="unsupported",
            )
        sample = self._sample(machine)
        if spent is not None:
            sample.add(spent)
        else:
            sample.skips += 1
        machine.charge_cpu(sample.mean_s if spent is None else spent)

    def __iter__(self) -> Iterator[int]:
        with self as is_run:
            if is_run:
                yield 0

    def _sample(self, machine: SamplingContext) -> Sample:
        rank = cast(context.MachineContext, machine).rank if self.over == "rank" else -1
        return machine.samples.setdefault((self.name, rank), Sample())


def _sampling_machine() -> SamplingContext | None:
    machine = context.current()
    return cast(SamplingContext, machine) if hasattr(machine, "samples") else None
