"""The cores that this process may use: they decide whether wall-clock times mean anything."""

from __future__ import annotations

import math
import os

__all__ = ["available_cores"]


def available_cores() -> int:
    """Count the cores this process may run on: its affinity mask and its container's quota."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    quota = _quota()
    return max(1, min(cores, math.floor(quota)) if quota else cores)


def _quota() -> float | None:
    """Return the cores a control group allows, or None without a limit."""
    try:
        limit, period = _text("/sys/fs/cgroup/cpu.max").split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    folder = "/sys/fs/cgroup/cpu"
    try:
        limit_us = int(_text(f"{folder}/cpu.cfs_quota_us"))
        return limit_us / int(_text(f"{folder}/cpu.cfs_period_us")) if limit_us > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _text(path: str) -> str:
    """Return what is in a file; without pathlib, which a rank would load for this alone."""
    with open(path, encoding="ascii") as file:
        return file.read()
