"""The location of a process: one in another container or on another host cannot be signalled from here."""

from __future__ import annotations

import os

__all__ = ["whereabouts"]


def whereabouts() -> dict[str, str]:
    """Tell where this process is."""
    boot, table = "", ""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        table = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux: there is one host only
        pass
    return {"host": _host(), "boot": boot, "table": f"{boot} {table}"}


def _host() -> str:
    """Return the host's name; the module that knows it everywhere is slow to load, in every rank."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import platform

    return platform.node()
