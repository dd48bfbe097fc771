"""A pytest plugin for nbval: patience with a busy host, and a second try where a kernel does not answer.

nbval waits 5 s for the outputs of a cell that has ended, too short under load. A kernel is given ports that
were free a moment ago, so two that start at once may get in each other's way. How a run goes on, which
cells show that run for long, is no output to compare.
"""

from __future__ import annotations

import os
from typing import Any

from nbval import kernel

os.environ["LABKIT_PROGRESS"] = "off"

WAIT_S = 120
#: of the whole limit, for the first try
FIRST = 1 / 3

_start = kernel.start_new_kernel


def start_new_kernel(startup_timeout: float = 60, **how: Any) -> Any:
    """Start a kernel; one that does not answer, or dies at once, is ended, and another one is started."""
    try:
        return _start(startup_timeout=startup_timeout * FIRST, **how)
    except RuntimeError:
        return _start(startup_timeout=startup_timeout, **how)


kernel.start_new_kernel = start_new_kernel


def pytest_collection_modifyitems(items):
    for item in items:
        if hasattr(item, "output_timeout"):
            item.output_timeout = WAIT_S
