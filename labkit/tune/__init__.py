"""Tuning: which way of communicating is the fastest, found off line by simulation or at run time by use."""

from __future__ import annotations

from labkit.tune.entrance import Tune
from labkit.tune.runtime.codelets import Codelet, FunctionSet
from labkit.tune.runtime.estimators import Cluster, Drop, InterquartileRange, Mean, StudentT
from labkit.tune.runtime.explanation import Decision, Explanation
from labkit.tune.runtime.plan import Monitor
from labkit.tune.runtime.quality import Verification
from labkit.tune.runtime.request import Request
from labkit.tune.runtime.timer import Timer
from labkit.tune.tree import Leaf
from labkit.tune.tuned import Tuned

__all__ = [
    "Cluster", "Codelet", "Decision", "Drop", "Explanation", "FunctionSet", "InterquartileRange", "Leaf",
    "Mean", "Monitor", "Request", "StudentT", "Timer", "Tuned", "Verification", "tune",
]  # fmt: skip

#: ``lk.tune``: call it off line; its methods make requests
tune = Tune()
