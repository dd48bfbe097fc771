"""The cores that this process may use: they decide whether wall-clock times mean anything."""

from __future__ import annotations

import math
import os
from pathlib import Path

__all__ = ["available_cores"]


def available_cores() -> int:
    """Count the cores this process may run on: its affinity mask and its container's quota.

    Returns
    -------
    int
        At least 1. A quota of 1.5 cores counts as 1.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    quota = _quota()
    return max(1, min(cores, math.floor(quota)) if quota else cores)


def _quota() -> float | None:
    """Return the cores a control group allows, or None without a limit."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    folder = Path("/sys/fs/cgroup/cpu")
    try:
        limit_us = int((folder / "cpu.cfs_quota_us").read_text())
        return limit_us / int((folder / "cpu.cfs_period_us").read_text()) if limit_us > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
