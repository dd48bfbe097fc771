"""Computation by the host's clock: what a rank's own code takes here is what it takes there, scaled.

A program that charges nothing computes in no time. With ``compute="measured"`` the CPU time that this
process spends in a rank's code between two calls of MPI is charged to that rank instead (wall-clock time
would count the other processes of this machine). This machine counts as a host of `REFERENCE_FLOPS_PER_S`,
as the calibrated one does, so that a simulated host of twice that speed takes half the time.

Such a run is never quite the same twice; it says so. What labkit itself does inside a call of MPI before
the rank waits is charged, too: some microseconds a call. `labkit.local` then charges nothing of its own, as
its work is done and measured; `labkit.compute` still charges what it is told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from labkit.errors import MachineError

__all__ = ["NOTE", "REFERENCE_FLOPS_PER_S", "Measured", "measured_of"]

#: the speed that a simulated host must have for measured work to take as long there as here
REFERENCE_FLOPS_PER_S = 1e9
NOTE = "computation was measured on this host: not deterministic"


@dataclass(frozen=True)
class Measured:
    """How computation is charged.

    Attributes
    ----------
    scale : float
        Factor of every measured time, > 0: 0.5 for a simulated host twice as fast as this one.
    is_everything : bool
        Whether all of the ranks' code is measured, or only what `labkit.sampled` marks.
    """

    scale: float = 1.0
    is_everything: bool = True

    def __post_init__(self) -> None:
        """Refuse a scale that no host has."""
        is_number = isinstance(self.scale, int | float) and not isinstance(self.scale, bool)
        if not is_number or not 0 < self.scale < math.inf:
            raise MachineError(f"measured computation needs a finite scale > 0, got {self.scale!r}")

    @property
    def flops_per_cpu_s(self) -> float:
        """Operations that a second of this host's CPU time stands for."""
        return REFERENCE_FLOPS_PER_S * self.scale


def measured_of(compute: str | Measured) -> Measured:
    """Read the option `compute` of a run.

    Parameters
    ----------
    compute : str or Measured
        ``"charged"``: only what is charged takes time. ``"measured"``, or with a factor ``"measured:0.5"``.

    Raises
    ------
    MachineError
        Anything else.

    Examples
    --------
    >>> measured_of("measured:0.5").scale, measured_of("charged").is_everything
    (0.5, False)
    """
    if isinstance(compute, Measured):
        return compute
    allowed = 'allowed: "charged", "measured", "measured:FACTOR"'
    if not isinstance(compute, str):
        raise MachineError(f"compute={compute!r} is not known; {allowed}")
    word, colon, factor = compute.partition(":")
    if word == "charged":
        is_everything = False
    elif word == "measured":
        is_everything = True
    else:
        raise MachineError(f"compute={compute!r} is not known; {allowed}")
    try:
        return Measured(float(factor) if colon else 1.0, is_everything)
    except ValueError:
        raise MachineError(f"compute={compute!r}: {factor!r} is not a number; {allowed}") from None
