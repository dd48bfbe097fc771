"""Node-local kernels: the work that one rank does between its messages.

Each kernel does its work with NumPy. In a simulated run it also charges what the same work took on the
machine that was calibrated (`labkit.local.costs`), so that simulated time is a function of the input
and of committed data alone, never of the host that happens to run the simulation.
"""

from labkit.local.codes import KEY_KINDS, from_codes, is_sortable, to_codes
from labkit.local.costs import Cost, KernelCosts, calibration, use_calibration
from labkit.local.grid import (
    MOST_DIGIT_BITS,
    classify,
    digit_counts,
    distribute,
    histogram,
    partition,
    scatter,
)
from labkit.local.standin import Range, StandIn, StandIns, is_stand_in, room_like, stand_in
from labkit.local.work import KERNELS, count_up_to, merge, merge_order, most_runs, predicted_s, sort

__all__ = [
    "KERNELS",
    "KEY_KINDS",
    "MOST_DIGIT_BITS",
    "Cost",
    "KernelCosts",
    "Range",
    "StandIn",
    "StandIns",
    "calibration",
    "classify",
    "count_up_to",
    "digit_counts",
    "distribute",
    "from_codes",
    "histogram",
    "is_sortable",
    "is_stand_in",
    "merge",
    "merge_order",
    "most_runs",
    "partition",
    "predicted_s",
    "room_like",
    "scatter",
    "sort",
    "stand_in",
    "to_codes",
    "use_calibration",
]
