"""The tolerance of a simulated run: what it may be, what it promises, and what it came to."""

from __future__ import annotations

import math
import numbers
from dataclasses import asdict, dataclass
from typing import Any

from labkit.errors import MachineError
from labkit.units import format_count

__all__ = ["LARGEST_TOLERANCE", "ToleranceUse", "check_tolerance"]

#: from here on it would be an error of the machine rather than of the arithmetic
LARGEST_TOLERANCE = 0.1


def check_tolerance(tolerance: Any, machine: str | None = None) -> float:
    """Refuse what is no tolerance, and any but 0 on a machine that is not simulated."""
    is_number = isinstance(tolerance, numbers.Real) and not isinstance(tolerance, bool)
    if not is_number or not 0 <= float(tolerance) < LARGEST_TOLERANCE:  # nor NaN
        raise MachineError(
            "tolerance is the error of a link's capacity that a simulation may make, from 0 (exact) to below "
            f"{LARGEST_TOLERANCE:g}, for example 1e-3; got {tolerance!r}"
        )
    if machine is not None and tolerance != 0:
        raise MachineError(f"tolerance belongs to simulated runs, not to {machine}; leave it out")
    return float(tolerance)


@dataclass(frozen=True)
class ToleranceUse:
    """What a tolerance other than 0 came to in one simulated run.

    Attributes
    ----------
    tolerance : float
        The relative error of a link's capacity that was allowed.
    instants : int
        How often the links were shared anew.
    loose_instants : int
        At how many of these the tolerance was in force: single changes were being repaired, and some link had
        messages enough. At all others the sharing is exact.
    certified_instants : int
        At how many of those the rates were certified, independently of how they were found.
    perturbation : float
        The largest change of a capacity that a certificate needed, relative.
    without_bottleneck : int
        Messages for which no change of capacities would do; 0 unless labkit has a mistake.
    """

    tolerance: float
    instants: int
    loose_instants: int
    certified_instants: int
    perturbation: float
    without_bottleneck: int

    def record(self) -> dict[str, float | int]:
        """Return it as plain data."""
        return asdict(self)

    def text(self) -> str:
        """Say how often it was used and what the certificates found."""
        if self.loose_instants == 0:
            return f"{self.tolerance:g}, never used: every rate is exact"
        used = f"{format_count(self.loose_instants)} of {format_count(self.instants)} sharings"
        found = f"largest change {self.perturbation:.2g} at {format_count(self.certified_instants)} certified"
        return f"{self.tolerance:g}, used in {used}, {found}"

    def guarantee(self) -> str:
        """Say what the rates of such a run are."""
        if self.without_bottleneck:
            return (
                f"{self.without_bottleneck} messages had no bottleneck: their rates are wrong, and so is "
                "labkit; please report it, and use tolerance=0"
            )
        digits = 2 - math.floor(math.log10(100 * self.tolerance))
        percent = f"{100 * self.tolerance:.{max(digits, 0)}f}".rstrip("0").rstrip(".")
        return (
            f"tolerance {self.tolerance:g}: at every instant the rates are the max-min fair ones for link "
            f"capacities changed by at most {percent} %; makespans usually differ by far less"
        )
