"""The result of a demo, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from labkit.cli.demo.plan import Plan
from labkit.cli.demo.real import RealSort
from labkit.cli.demo.simulated import MODEL, Extrapolation, SimulatedSort, compared
from labkit.datasets import flights

if TYPE_CHECKING:
    from labkit.study import Comparison

__all__ = ["Demo"]


@dataclass
class Demo:
    """What the demo found.

    Attributes
    ----------
    plan : Plan
        What was run.
    header : dict of str to str
        This host and its software.
    source : {"package", "extract"}
        All flights, or the extract where the package is not installed.
    simulated : list of SimulatedSort
        One per sorter and machine.
    beyond : list of Extrapolation
        What the fits say about larger machines, compared with what was simulated there.
    real : list of RealSort
        Empty if there is no MPI.
    mpi_trouble : str
        Why there is no real MPI; empty if there is.
    seconds : float
        How long the demo took on this host.
    """

    plan: Plan
    header: dict[str, str]
    source: flights.Source
    simulated: list[SimulatedSort]
    beyond: list[Extrapolation] = field(default_factory=list)
    real: list[RealSort] = field(default_factory=list)
    mpi_trouble: str = ""
    seconds: float = 0.0

    @property
    def comparison(self) -> Comparison:
        """The verdicts: sorters and their phases down, machines across."""
        return compared(self.simulated)

    @property
    def exit_code(self) -> int:
        """0 if all went well, 1 if a sort is wrong, 3 if there is no MPI."""
        if not all(result.is_correct for result in self.real):
            return 1
        return 3 if self.mpi_trouble else 0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON."""
        return {
            "exit": self.exit_code,
            "host": self.header,
            "flights": self.source,
            "mpi": {
                "works": not self.mpi_trouble,
                "trouble": self.mpi_trouble,
                "sorts": [asdict(result) | {"is_correct": result.is_correct} for result in self.real],
            },
            "model": MODEL,
            "simulated": [
                {
                    "sorter": one.sorter,
                    "machine": one.machine,
                    "on": one.on,
                    "keys_per_rank": one.n_local,
                    "imbalance": {str(p): value for p, value in one.imbalances.items()},
                    "makespan_s": {str(p): value for p, value in one.makespans().items()},
                    "messages": {str(p): value for p, value in one.messages.items()},
                    "verdicts": {name: verdict.to_dict() for name, verdict in one.table.verdicts.items()},
                }
                for one in self.simulated
            ],
            "matches": self.comparison.counts,
            "beyond": [asdict(row) for row in self.beyond],
            "seconds": round(self.seconds, 3),
        }
