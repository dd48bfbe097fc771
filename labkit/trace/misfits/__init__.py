"""A measured run held against the predicted one of the same program: what of the machine is off.

`find_misfits` pairs what both runs did (`samples`), looks for groups and single times that are off by more
than chance makes likely (`search`), and says so (`misfits`).
"""

from labkit.trace.misfits.misfits import Misfits, find_misfits
from labkit.trace.misfits.search import Finding

__all__ = ["Finding", "Misfits", "find_misfits"]
