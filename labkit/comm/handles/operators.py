"""Reduction operators: MPI's own and the program's."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from labkit import _kernels
from labkit.comm import names
from labkit.comm.handles.base import MODULE_NAME, Named

__all__ = ["OPERATORS", "Op"]

_Function = Callable[[Any, Any], Any]


def _first_by(is_better: _Function) -> _Function:
    """MAXLOC and MINLOC on (value, location) pairs: the lower location wins a tie."""

    def choose(x: Any, y: Any) -> Any:
        (u, i), (v, j) = x, y
        if is_better(u, v):
            return u, i
        if is_better(v, u) or j < i:
            return v, j
        return u, i

    return choose


_FUNCTIONS: dict[str, _Function] = {
    "MAX": lambda x, y: y if y > x else x,
    "MIN": lambda x, y: y if y < x else x,
    "SUM": lambda x, y: x + y,
    "PROD": lambda x, y: x * y,
    "LAND": lambda x, y: bool(x) & bool(y),
    "BAND": lambda x, y: x & y,
    "LOR": lambda x, y: bool(x) | bool(y),
    "BOR": lambda x, y: x | y,
    "LXOR": lambda x, y: bool(x) ^ bool(y),
    "BXOR": lambda x, y: x ^ y,
    "MAXLOC": _first_by(lambda u, v: u > v),
    "MINLOC": _first_by(lambda u, v: u < v),
    "REPLACE": lambda x, y: y,
    "NO_OP": lambda x, y: x,
}


class Op(Named):
    """A reduction operator: callable on two objects, applied to buffers by the collectives."""

    __slots__ = ("_constant", "_function", "_is_commutative")
    __module__ = MODULE_NAME
    _known = names.OP
    _function: Callable[..., Any] | None
    _is_commutative: bool

    def __new__(cls, op: Op | None = None) -> Op:
        """Return OP_NULL, or the operator given."""
        if op is None:
            return OPERATORS["OP_NULL"]
        if not isinstance(op, Op):
            raise TypeError(f"op: expected an Op, got {type(op).__name__}")
        return op

    @classmethod
    def _make(cls, constant: str | None, function: Callable[..., Any] | None, commute: bool) -> Op:
        self = object.__new__(cls)
        self._constant, self._function, self._is_commutative = constant, function, commute
        return self

    @classmethod
    def Create(cls, function: Callable[[Any, Any, Any], None], commute: bool = False) -> Op:
        """Make an operator of ``function(inbuf, inoutbuf, datatype)``, which leaves in op inout in inout.

        Parameters
        ----------
        function : callable
            Gets two memoryviews of bytes of equal length and the datatype.
        commute : bool
            Whether the order of the operands may be changed.
        """
        if not callable(function):
            raise TypeError(f"Op.Create needs a function(inbuf, inoutbuf, datatype), got {function!r}")
        return cls._make(None, function, bool(commute))

    def __call__(self, x: Any, y: Any) -> Any:
        """Combine two objects."""
        if self._function is None:
            raise ValueError("cannot apply OP_NULL")
        if self._constant is None:
            return self._function(x, y, None)
        return self._function(x, y)

    def __repr__(self) -> str:
        return f"labkit.MPI.{self._constant or 'Op'}"

    def __reduce__(self) -> Any:
        if self._constant is not None:
            return self._constant
        return type(self).Create, (self._function, self._is_commutative)

    def __bool__(self) -> bool:
        return self._function is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Op):
            return NotImplemented
        return self is other or (not self and not other)  # a freed one is OP_NULL

    __hash__ = None

    def Is_commutative(self) -> bool:
        """Whether the order of the operands may be changed."""
        return self._is_commutative

    is_commutative = property(Is_commutative, doc="Whether the order of the operands may be changed.")

    @property
    def is_predefined(self) -> bool:
        """Whether MPI defines it."""
        return self._constant is not None

    def Free(self) -> None:
        """Forget a made operator."""
        if self._constant is not None:
            from labkit.comm.handles.exceptions import Exception as MPIException

            raise MPIException(10, f"{self!r} is predefined and cannot be freed")
        self._function = None

    def Reduce_local(self, inbuf: Any, inoutbuf: Any) -> None:
        """Combine two local buffers: inoutbuf = inbuf op inoutbuf, element by element."""
        from labkit.comm.buffers import array_of, parse_simple
        from labkit.comm.handles.exceptions import Exception as MPIException

        left, right = parse_simple(inbuf, False), parse_simple(inoutbuf, True)
        if left.datatype is not right.datatype:
            raise ValueError("mismatch in inbuf and inoutbuf MPI datatypes")
        if left.count != right.count:
            raise ValueError(f"mismatch in inbuf count {left.count} and inoutbuf count {right.count}")
        reduction = self._reduction(right.datatype)
        if reduction is None:
            raise MPIException(10, f"{self!r} is not defined on {right.datatype!r}")
        if right.count:
            reduction.apply(np.ascontiguousarray(array_of(left)), array_of(right), True)

    def _reduction(self, datatype: Any) -> Any:
        """Return the kernels' form of this operator on a datatype; None where MPI defines none."""
        if self._constant is not None:
            return _native(self._constant.lower(), datatype.code)
        function: Any = self._function

        def on_bytes(left: memoryview, right: memoryview) -> None:
            function(left, right, datatype)

        return _kernels.PythonReduction(on_bytes)


@lru_cache
def _native(operator: str, code: str) -> Any:
    """Return the compiled operator on elements of a type: the same one for every call."""
    return _kernels.native_reduction(operator, code)


#: name in the module -> operator
OPERATORS: dict[str, Op] = {
    name: Op._make(name, function, name not in ("REPLACE", "NO_OP")) for name, function in _FUNCTIONS.items()
}
OPERATORS["OP_NULL"] = Op._make("OP_NULL", None, False)
