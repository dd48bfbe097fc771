"""Run a program: ``labkit.run(program, ranks=64, on="star:64")``; the result is a `Run`.

This module is callable: importing a submodule binds ``labkit.run`` to the module, whatever the package had
put there, and ``labkit.run(...)`` has to work before and after that.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

from labkit.run.front import run
from labkit.run.result import PHASE_COLUMNS, Run, phase_frame

__all__ = ["PHASE_COLUMNS", "Run", "phase_frame", "run"]


class _CallableModule(ModuleType):
    __signature__ = inspect.signature(run)

    def __call__(self, *args: Any, **kwargs: Any) -> Run:
        return run(*args, **kwargs)


_CallableModule.__call__.__doc__ = run.__doc__
sys.modules[__name__].__class__ = _CallableModule
