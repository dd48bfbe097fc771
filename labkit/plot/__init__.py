"""Figures of results, and pages that work offline.

    scaling         measurements with their model and, of a verdict, the expectation and its limits
    phases          every entry of a study's table as a small scaling figure
    compare, lines  programs on each machine; several curves of one study
    matrix          a metric of a study over two parameters as a heat map
    efficiency, speedup
                    speedup and efficiency over the ranks, of a study or several
    shares          the share of each phase in the time, over the ranks
    summands        what each summand of a model contributes
    gantt           what the ranks of a recorded run did over time
    sends           who sent how much to whom
    critical_path   the chain of events that the makespan consists of
    heat            the machine of a run, its cables colored by their use
    utilisation     how much of the busiest links was in use, over time
    waits, delays   who waited where, and what that goes back to: tables; the time line
    report          metrics, call paths and machine side by side, as Cube does
    wait_for        who waits for whom in a deadlock
    topology        a machine
    calibration     measured and predicted times over the message size
    predictions     the errors of predictions, network by network
    misfits         how much longer than predicted each call of a real run took
    guess           a prediction made before a run, compared with the outcome
    card, regions   what a collective costs; its fastest algorithm over ranks and bytes
    tuning          what a tuned call measured, and what decided
    plan            when each message of a synthesized collective is under way
    page, render_page
                    figures and tables as one page of HTML: a file, a text

Each is loaded when it is first used; ``figure.save("figure.png")`` writes a file.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from labkit.errors import unknown_name
from labkit.plot.subject import asks_for_its_subject

if TYPE_CHECKING:
    from labkit.plot.calibration_figure import calibration as calibration
    from labkit.plot.card_figure import card as card
    from labkit.plot.compare_figure import compare as compare
    from labkit.plot.compare_figure import lines as lines
    from labkit.plot.efficiency_figure import efficiency as efficiency
    from labkit.plot.efficiency_figure import efficiency as speedup
    from labkit.plot.explanation_figure import critical_path as critical_path
    from labkit.plot.explanation_figure import heat as heat
    from labkit.plot.explanation_figure import utilisation as utilisation
    from labkit.plot.figure import Figure as Figure
    from labkit.plot.figure import page as page
    from labkit.plot.figure import render_page as render_page
    from labkit.plot.gantt_figure import gantt as gantt
    from labkit.plot.guess_figure import guess as guess
    from labkit.plot.matrix_figure import matrix as matrix
    from labkit.plot.misfits_figure import misfits as misfits
    from labkit.plot.phase_figure import phases as phases
    from labkit.plot.phase_figure import shares as shares
    from labkit.plot.plan_figure import plan as plan
    from labkit.plot.prediction_figure import predictions as predictions
    from labkit.plot.regions_figure import regions as regions
    from labkit.plot.report_panes import report as report
    from labkit.plot.scaling_figure import scaling as scaling
    from labkit.plot.sends_figure import sends as sends
    from labkit.plot.summands_figure import summands as summands
    from labkit.plot.topology_figure import topology as topology
    from labkit.plot.tuning_figure import tuning as tuning
    from labkit.plot.waits_figure import delays as delays
    from labkit.plot.waits_figure import waits as waits

#: modules whose figures bear other names; of all others `NAME_figure` has the figure NAME
_NAMED = {
    "compare_figure": ("compare", "lines"),
    "efficiency_figure": ("efficiency", "speedup"),
    "explanation_figure": ("critical_path", "heat", "utilisation"),
    "phase_figure": ("phases", "shares"),
    "prediction_figure": ("predictions",),
    "waits_figure": ("delays", "waits"),
}
#: what else there is
_OTHERS = {"Figure": "figure", "page": "figure", "render_page": "figure", "report": "report_panes"}
#: other name -> figure
_SAME_AS = {"speedup": "efficiency"}
#: what people ask for under another name, and what to write
_INSTEAD = {
    **dict.fromkeys(("timeline", "time_line", "trace"), "labkit.plot.gantt(run) of a run with trace=True"),
    "plot": "study.plot() of a study, labkit.plot.gantt(run) of a run with trace=True",
    "deadlock": "labkit.plot.wait_for(error)",
    **dict.fromkeys(
        ("save", "savefig", "show"),
        'a figure, such as labkit.plot.gantt(run).save("figure.pdf"); a cell shows it as its last line',
    ),
}

__all__ = [
    "Figure",
    "calibration",
    "card",
    "compare",
    "critical_path",
    "delays",
    "efficiency",
    "gantt",
    "heat",
    "lines",
    "matrix",
    "misfits",
    "page",
    "phases",
    "plan",
    "predictions",
    "regions",
    "render_page",
    "report",
    "scaling",
    "sends",
    "shares",
    "speedup",
    "summands",
    "topology",
    "tuning",
    "utilisation",
    "waits",
]


def _figures() -> dict[str, str]:
    """Return the module that holds each figure: the listing of this folder."""
    files = (module.name for module in pkgutil.iter_modules(__path__) if module.name.endswith("_figure"))
    return {name: file for file in files for name in _NAMED.get(file, (file.removesuffix("_figure"),))}


def __getattr__(name: str) -> object:
    module = {**_figures(), **_OTHERS}.get(name)
    if module is None:
        raise unknown_name("labkit.plot", name, _figures(), _INSTEAD)
    value = getattr(importlib.import_module(f"labkit.plot.{module}"), _SAME_AS.get(name, name))
    value = asks_for_its_subject(value, f"labkit.plot.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_figures(), *(name for name in _OTHERS if name != "Figure")])
