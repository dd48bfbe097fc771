"""``%load_ext labkit``: the magics, registered with the running IPython."""

from __future__ import annotations

from typing import Any

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Register labkit's magics.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The running IPython.
    """


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away."""
