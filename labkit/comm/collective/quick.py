"""Collective methods with a short way past Python, for calls of a form that has been seen before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from labkit import _kernels

__all__ = ["quick", "quick_own_block"]

_Method = TypeVar("_Method", bound=Callable[..., Any])


def quick(method: _Method) -> _Method:
    """Let a method's plain calls go straight to the engine once one of their form has been carried out.

    What a form is and what is plain, kernels/bindings/hub/quick_calls.hpp says. The method may have the
    parameters `op`, `root`, and one or two buffers. All that it does must follow from its arguments, the
    communicator and whether the rank is the root; it ends in `labkit.comm.collective.native.perform`.
    """
    return _wrapped(method, keeps_own_block=False)


def quick_own_block(method: _Method) -> _Method:
    """Do as `quick`, for a method that with IN_PLACE sends the rank's own block, not the whole buffer."""
    return _wrapped(method, keeps_own_block=True)


def _wrapped(method: _Method, keeps_own_block: bool) -> _Method:
    make: Any = _kernels.QuickMethod
    made: Any = make(method, keeps_own_block)
    functools.update_wrapper(made, method)
    return made  # type: ignore[no-any-return]
