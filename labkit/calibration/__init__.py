"""Calibration: a real machine's message times, measured, cut into pieces, and written as a platform."""

from labkit.calibration.calibrate import calibrate, from_measurements, with_shares
from labkit.calibration.experiments import (
    EXPERIMENTS,
    EffectiveBisection,
    Plan,
    effective_bisection,
    heap_bytes,
    make_plan,
    partners,
)
from labkit.calibration.fit import Fit, Piece, Piecewise, Shares, Threshold, fit_network, fit_pieces
from labkit.calibration.loggp import fit_loggp, measure_round_trips, predicted_round_trips
from labkit.calibration.result import Calibration, Quality

__all__ = [
    "EXPERIMENTS",
    "Calibration",
    "EffectiveBisection",
    "Fit",
    "Piece",
    "Piecewise",
    "Plan",
    "Quality",
    "Shares",
    "Threshold",
    "calibrate",
    "effective_bisection",
    "fit_loggp",
    "fit_network",
    "fit_pieces",
    "from_measurements",
    "heap_bytes",
    "make_plan",
    "measure_round_trips",
    "partners",
    "predicted_round_trips",
    "with_shares",
]
