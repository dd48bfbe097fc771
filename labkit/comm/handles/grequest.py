"""Generalised requests: operations that the program carries on and completes itself."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any

from labkit.comm.collective.native import shared_calls
from labkit.comm.handles.base import MODULE_NAME
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.status import Request, Status

__all__ = ["Grequest"]

_ERR_REQUEST, _ERR_OTHER = 7, 16


class Grequest(Request):
    """A request that is over when the program calls `Complete`; its callbacks say what it came to."""

    __slots__ = ("_cancel", "_free", "_object", "_query")
    __module__ = MODULE_NAME
    _query: Callable[[Status], Any]
    _free: Callable[[], Any]
    _cancel: Callable[[bool], Any]
    _object: Any

    def __init__(self, request: Request | None = None) -> None:
        if request and not isinstance(request, Grequest):
            raise TypeError(f"request: expected a Grequest, got {type(request).__name__}")
        if request:
            self._cancel = request._cancel

    @classmethod
    def Start(
        cls,
        query_fn: Callable[..., None] | None = None,
        free_fn: Callable[..., None] | None = None,
        cancel_fn: Callable[..., None] | None = None,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Grequest:
        """Begin an operation.

        Parameters
        ----------
        query_fn : callable, optional
            ``query_fn(status, *args, **kwargs)`` fills the status of the operation that is over.
        free_fn : callable, optional
            ``free_fn(*args, **kwargs)``, after that.
        cancel_fn : callable, optional
            ``cancel_fn(completed, *args, **kwargs)``, where `Cancel` is called.
        args, kwargs : tuple, dict, optional
        """
        rest, named = tuple(args or ()), dict(kwargs or {})
        self = cls()
        self._query = lambda status: query_fn and query_fn(status, *rest, **named)
        self._free = lambda: free_fn and free_fn(*rest, **named)
        self._cancel = lambda is_over: cancel_fn and cancel_fn(is_over, *rest, **named)
        self._object = None
        self._take(shared_calls("Grequest.Start").hub.start_general("a generalized request"))
        self._after(self._ended)
        return self

    def _ended(self, status: Status | None) -> Any:
        """Let the program say what it came to; what `wait` returns."""
        try:
            _called(self._query, Status() if status is None else status)
        finally:
            _called(self._free)
        result, self._object = self._object, None
        return result

    def Complete(self) -> None:
        """Say that the operation is over."""
        if self._is_over() is not False:
            raise MPIException(_ERR_REQUEST, "this generalized request is complete already, or null")
        self._complete()

    def complete(self, obj: Any = None) -> None:
        """Say that it is over; `wait` returns the object."""
        self.Complete()
        self._object = obj

    def Cancel(self) -> None:
        """Ask the operation to end."""
        is_over = self._is_over()
        if is_over is None:
            raise MPIException(_ERR_REQUEST, "cannot cancel REQUEST_NULL")
        _called(self._cancel, is_over)

    cancel = Cancel


def _called(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a callback; its errors are MPI's."""
    try:
        function(*arguments)
    except MPIException as error:
        traceback.print_exc(file=sys.stderr)
        raise MPIException(error.Get_error_code()) from error
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        raise MPIException(_ERR_OTHER, f"a callback raised {type(error).__name__}: {error}") from error
