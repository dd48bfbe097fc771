"""Computation by the host's clock: what a rank's own code takes here is what it takes there, scaled.

A program that charges nothing computes in no time. With ``compute="measured"`` the CPU time that this
process spends in a rank's code between two calls of MPI is charged to that rank instead (wall-clock time
would count the other processes of this machine). This machine counts as a host of `REFERENCE_FLOPS_PER_S`,
as the calibrated one does, so that a simulated host of twice that speed takes half the time.

Such a run is never quite the same twice; it says so, and keeps what it has measured, to be charged again to
the bit (`labkit.sim.computation`): ``compute=run``, ``compute=study``, ``compute="recorded:FILE"``. What
labkit itself does inside a call of MPI before the rank waits is charged, too: some microseconds a call.
`labkit.local` then charges nothing of its own, as its work is done and measured; `labkit.compute` still
charges what it is told.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from labkit.errors import MachineError
from labkit.nearest import nearest
from labkit.result.computation import Computation
from labkit.sim.computation import Records

__all__ = ["NOTE", "RECORDED", "REFERENCE_FLOPS_PER_S", "REPLAYED", "UNREPEATED", "Measured", "measured_of"]

#: the speed that a simulated host must have for measured work to take as long there as here
REFERENCE_FLOPS_PER_S = 1e9
NOTE = "computation was measured on this host: not deterministic; compute=run repeats it to the bit"
UNREPEATED = (
    "computation was measured on this host: not deterministic; that of spawned ranks cannot be charged again"
)
RECORDED = (
    "computation was measured on this host, and is kept: compute=study, or the file, repeats it to the bit"
)
REPLAYED = "computation was charged as it had been recorded: nothing was measured"


@dataclass(frozen=True)
class Measured:
    """How computation is charged.

    Attributes
    ----------
    scale : float
        Factor of every measured time, > 0: 0.5 for a simulated host twice as fast as this one.
    is_everything : bool
        Whether all of the ranks' code is measured, or only what `labkit.sampled` marks.
    records : Records, optional
        Where computation is kept, and found instead of being measured.
    replay : Computation, optional
        What is charged instead of what is measured.
    """

    scale: float = 1.0
    is_everything: bool = True
    records: Records | None = None
    replay: Computation | None = None

    def __post_init__(self) -> None:
        """Refuse a scale that no host has."""
        is_number = isinstance(self.scale, int | float) and not isinstance(self.scale, bool)
        if not is_number or not 0 < self.scale < math.inf:
            raise MachineError(f"measured computation needs a finite scale > 0, got {self.scale!r}")

    @property
    def flops_per_cpu_s(self) -> float:
        """Operations that a second of this host's CPU time stands for."""
        return REFERENCE_FLOPS_PER_S * self.scale


_ALLOWED = (
    'allowed: "charged", "measured", "measured:FACTOR", "recorded:FILE", or a run or study whose computation '
    "was measured"
)


def measured_of(compute: Any) -> Measured:
    """Read the option `compute` of a run.

    Examples
    --------
    >>> measured_of("measured:0.5").scale, measured_of("charged").is_everything
    (0.5, False)
    """
    if isinstance(compute, Measured):
        return compute
    if isinstance(compute, str):
        return _from_words(compute)
    kept = (
        compute if isinstance(compute, Computation | Records) else getattr(compute, "computation", _ALLOWED)
    )
    if kept is None or (isinstance(kept, Records) and not kept):
        raise MachineError(
            f"this {type(compute).__name__} has no recorded computation: it was not measured; "
            'make it with compute="measured"'
        )
    if isinstance(kept, Computation):
        return Measured(kept.scale, replay=kept)
    if isinstance(kept, Records):
        return Measured(records=kept)
    raise MachineError(f"compute={compute!r} is not known; {_ALLOWED}")


def _from_words(compute: str) -> Measured:
    word, colon, rest = compute.partition(":")
    if word == "recorded":
        return Measured(records=Records.at(os.path.expanduser(rest)))
    if word not in ("charged", "measured"):
        meant = nearest(word, ("charged", "measured", "recorded"))
        raise MachineError(f"compute={compute!r} is not known{meant}; {_ALLOWED}")
    try:
        return Measured(float(rest) if colon else 1.0, word == "measured")
    except ValueError:
        raise MachineError(f"compute={compute!r}: {rest!r} is not a number; {_ALLOWED}") from None
