"""Figures of results, and pages that work offline; only faces import this."""

from labkit.plot.calibration_figure import calibration
from labkit.plot.compare_figure import compare
from labkit.plot.efficiency_figure import efficiency
from labkit.plot.explanation_figure import critical_path, heat, utilisation
from labkit.plot.figure import Figure
from labkit.plot.gantt_figure import gantt
from labkit.plot.page import page, render_page
from labkit.plot.phase_figure import phases, shares
from labkit.plot.prediction_figure import predictions
from labkit.plot.scaling_figure import scaling
from labkit.plot.sends_figure import sends
from labkit.plot.topology_figure import topology

__all__ = [
    "Figure",
    "calibration",
    "compare",
    "critical_path",
    "efficiency",
    "gantt",
    "heat",
    "page",
    "phases",
    "predictions",
    "render_page",
    "scaling",
    "sends",
    "shares",
    "topology",
    "utilisation",
]
