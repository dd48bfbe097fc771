"""Analytic models: what a formula says, to be held against runs and fits.

Nothing here runs or simulates anything. `labkit.scaling` fits growth to measurements; these are the models of
the literature, with their parameters in seconds and bytes.
"""

from labkit.models.loggp import LogGP
from labkit.models.speedup import Amdahl, Gustafson, isoefficiency, karp_flatt

__all__ = ["Amdahl", "Gustafson", "LogGP", "isoefficiency", "karp_flatt"]
