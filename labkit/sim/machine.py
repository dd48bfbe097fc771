"""The simulated machine: any platform, of any size, in this process; a script in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import MachineError
from labkit.request import Machine, RunRequest
from labkit.result import Run, median_run

if TYPE_CHECKING:
    from labkit.platform.platform import Platform

__all__ = ["Simulated", "platform_for"]

#: each simulated rank needs some ten kilobytes of memory
MOST_RANKS = 1 << 20


class Simulated(Machine):
    """Ranks as greenlets over the engine; what names no other machine is a platform."""

    name = "a simulated run"
    is_real = False

    def owns(self, on: Any) -> bool:
        """Whether it is a platform: nobody else's, then."""
        return True

    def size(self, on: Any) -> int | None:
        """Return the number of a platform's cores; None for one that grows with the ranks."""
        from labkit.platform import platform

        return platform(on).capacity

    def checked(self, request: RunRequest) -> RunRequest:
        """Read platform, mapping, calibration, noise and computation, before anything runs."""
        from labkit.local.costs import find_calibration
        from labkit.platform.noise import noise_of
        from labkit.selector import selector_of
        from labkit.sim.measured import measured_of

        request = super().checked(request)
        if request.ranks > MOST_RANKS:
            raise MachineError(f"{self.name} has at most {MOST_RANKS:,} ranks, got {request.ranks:,}")
        on = platform_for(request.on, request.ranks, request.model, request.mapping)
        return request.changed(
            on=on, mapping=None, coll=selector_of(request.coll),
            calibration=find_calibration(request.calibration), noise=noise_of(request.noise),
            compute=measured_of("charged" if request.compute is None else request.compute),
        )  # fmt: skip

    def run(self, request: RunRequest) -> Run:
        """Simulate: deterministic, so that repetitions differ only in the seed."""
        if isinstance(request.program, Path):
            from labkit.sim.script import simulate_script

            return simulate_script(request)
        from labkit.sim.runner import simulate

        seeds = range(request.seed, request.seed + request.repeats)
        return median_run([simulate(request.changed(seed=seed)) for seed in seeds])


def platform_for(on: Any, ranks: int, model: Any = None, mapping: Any = None) -> Platform:
    """Refuse a platform that is not known or too small, a model or a mapping that is not known.

    Returns
    -------
    Platform
        The platform, with its ranks mapped.
    """
    from labkit.platform import models, platform

    machine = platform(on).mapped(mapping)
    machine.rank_hosts(ranks)
    if model is not None:
        models.get(model)
    return machine
