"""Tests in which a browser draws or prints: skipped on a machine that has none."""

from __future__ import annotations

import pytest

from labkit.plot.figure import find_browser

__all__ = ["needs_browser"]

needs_browser = pytest.mark.skipif(find_browser() is None, reason="no Chromium or Chrome here")
