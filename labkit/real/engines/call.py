"""The function that is sent to engines: it needs nothing but the name of labkit's module there."""

from __future__ import annotations

from typing import Any

__all__ = ["call"]


def call(header: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Run this engine's part of a run: see `labkit.real.engines.engine.execute`."""
    from labkit.real.engines.engine import execute

    return execute(header, payload)
