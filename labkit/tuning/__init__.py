"""Tuning: which way of communicating is the fastest, found off line by simulation or at run time by use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.tuning.entrance import Tune
from labkit.tuning.runtime.codelets import Codelet, FunctionSet
from labkit.tuning.runtime.explanation import Decision, TuningExplanation, Verification
from labkit.tuning.runtime.plan import Cluster, Drop, InterquartileRange, Mean, Monitor, StudentT
from labkit.tuning.runtime.request import Timer, TunedCall

if TYPE_CHECKING:
    from labkit.tuning.tuned import Leaf, Tuned

__all__ = [
    "Cluster", "Codelet", "Decision", "Drop", "FunctionSet", "InterquartileRange", "Leaf", "Mean", "Monitor",
    "StudentT", "Timer", "Tuned", "TunedCall", "TuningExplanation", "Verification", "tune",
]  # fmt: skip

#: ``lk.tune``: call it off line; its methods make requests
tune = Tune()


def __getattr__(name: str) -> object:
    """Load the results of off-line tuning when they are used: they need pandas."""
    if name in ("Leaf", "Tuned"):
        from labkit.tuning import tuned

        return getattr(tuned, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
