"""Reduction operators: MPI's own and the program's."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit import _kernels
from labkit.comm import surface
from labkit.comm.buffers import array_of, parse_simple
from labkit.comm.handles.base import MODULE_NAME, Named
from labkit.comm.handles.errhandlers import give_back, take_one
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.packing import address_of, gathered, scattered
from labkit.comm.handles.typebody import TypeBody, type_words

if TYPE_CHECKING:
    from labkit.comm.handles.datatypes import Datatype

__all__ = ["OPERATORS", "Op", "no_operator"]

_Function = Callable[[Any, Any], Any]


def _first_by(is_better: _Function) -> _Function:
    """MAXLOC and MINLOC on (value, location) pairs: the lower location wins a tie."""

    def choose(x: Any, y: Any) -> object:
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
#: defined for accumulates of windows, not for reductions of buffers
_OF_ACCUMULATES = ("REPLACE", "NO_OP")
_LOGICAL = ("LAND", "LOR", "LXOR")
#: predefined types that are combined as small integers, those that have logical operators only, and none
_SMALL, _TRUTHS = ("CHAR", "CHARACTER", "LOGICAL1"), ("C_BOOL", "CXX_BOOL", "LOGICAL", "LOGICAL4")
_NOT_LOGICAL = ("INTEGER", "INTEGER4", "PACKED")


class Op(Named):
    """A reduction operator: callable on two objects, applied to buffers by the collectives."""

    __slots__ = ("__weakref__", "_constant", "_function", "_is_commutative", "_is_of_number", "_token")
    __module__ = MODULE_NAME
    _known = surface.OP
    _function: Callable[..., object] | None
    _is_commutative: bool
    _is_of_number: bool
    _token: object

    def __new__(cls, op: Op | None = None) -> Op:
        """Return a handle of OP_NULL, or of the operator given."""
        if op is None:
            return cls._make("OP_NULL", None, False)
        if not isinstance(op, Op):
            raise no_operator(op)
        return cls._make(op._constant, op._function, op._is_commutative, op._token)

    @classmethod
    def _make(
        cls, constant: str | None, function: Callable[..., object] | None, commute: bool, token: object = None
    ) -> Op:
        self = object.__new__(cls)
        self._constant, self._function, self._is_commutative = constant, function, commute
        self._is_of_number = False
        self._token = token or constant or object()  # the same for all handles of one operator
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
        take_one("Op.Create", "reduction operations")
        return cls._make(None, function, bool(commute))

    def __call__(self, x: object, y: object) -> object:
        """Combine two objects."""
        if self._function is None:
            raise ValueError("cannot apply OP_NULL")
        if self._constant is None:
            return self._function(x, y, None)
        return self._function(x, y)

    def __repr__(self) -> str:
        return f"labkit.MPI.{self._constant or 'Op'}"

    def __reduce__(self) -> str | tuple[object, ...]:
        if self._constant is not None:
            constant = OPERATORS[self._constant]
            return self._constant if self is constant else (type(self), (constant,))
        if self._is_of_number:
            raise ValueError("cannot pickle a handle that was made of a number")
        return type(self).Create, (self._function, self._is_commutative)

    @classmethod
    def fromint(cls, arg: int, /) -> Any:
        """Return a handle of the operator with a number."""
        made = super().fromint(arg)
        made._is_of_number = True
        return made

    f2py = fromint
    fromhandle = fromint

    def __bool__(self) -> bool:
        return self._function is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Op):
            return NotImplemented
        return self._token == other._token or (self._function is None is other._function)  # freed: OP_NULL

    def _identity(self) -> object:
        return self._token if self else None

    __hash__ = None

    def Is_commutative(self) -> bool:
        """Whether the order of the operands may be changed."""
        if not self:
            raise MPIException(10, "this is OP_NULL")
        return self._is_commutative

    is_commutative = property(Is_commutative, doc="Whether the order of the operands may be changed.")

    @property
    def is_predefined(self) -> bool:
        """Whether MPI defines it."""
        return self._constant is not None

    def Free(self) -> None:
        """Forget a made operator."""
        if self._constant is not None:
            raise MPIException(10, f"{self!r} is predefined and cannot be freed")
        if self._function is None:
            raise MPIException(10, "OP_NULL cannot be freed")
        give_back("Op.Create")
        self._function = None

    def free(self) -> None:
        """Forget it; a handle of a predefined one becomes null, the module's own stays unchanged."""
        if self and self._constant is None:
            self.Free()
        elif self._constant is not None and self is not OPERATORS[self._constant]:
            self._constant = self._function = None

    def Reduce_local(self, inbuf: object, inoutbuf: object) -> None:
        """Combine two local buffers: inoutbuf = inbuf op inoutbuf, element by element."""
        # each is read as mpi4py does: first what is written
        right = parse_simple(inoutbuf, True, 0, True)
        left = parse_simple(inbuf, False, 0, True)
        if left.datatype != right.datatype:
            raise ValueError("mismatch in inbuf and inoutbuf MPI datatypes")
        if left.count != right.count:
            raise ValueError(f"mismatch in inbuf count {left.count} and inoutbuf count {right.count}")
        reduction = self._reduction(right.datatype)
        if reduction is None:
            raise MPIException(10, f"{self!r} is not defined on {type_words(right.datatype)}")
        if right.count:
            reduction.apply(np.ascontiguousarray(array_of(left)), array_of(right), True)
            if right.home:
                right.home.restore()

    def _reduction_at_target(self, datatype: Any) -> Any:
        """Return its form on the data of an accumulate, which takes derived datatypes of one basic type."""
        basics = {kind.code: kind for kind, _ in datatype._body.basics()}
        if self._constant is None or len(basics) != 1:
            return self._reduction(datatype)
        return _native_on(self._constant, basics.popitem()[1])

    def _reduction(self, datatype: Datatype) -> Any:
        """Return the kernels' form of this operator on a datatype; None where MPI defines none."""
        if self._constant is not None:
            is_defined = datatype.is_predefined and self._constant not in _OF_ACCUMULATES
            return _native_on(self._constant, datatype._body) if is_defined else None
        if self._function is None:  # it has been freed
            return None
        function: Any = self._function
        body = datatype._body
        if not (body.map.is_dense or body.dtype.fields):
            function = _on_elements(function, body)

        def on_bytes(left: memoryview, right: memoryview) -> None:
            function(_kernels.Buffer(left), _kernels.Buffer.frombuffer(right), datatype)

        return _kernels.PythonReduction(on_bytes)


def _on_elements(function: Callable[[Any, Any, Any], None], body: Any) -> Callable[[Any, Any, Any], None]:
    """Let a function that expects elements as they lie in memory combine them without their gaps."""
    first, _ = body.map.span(1)

    def combine(left: memoryview, right: memoryview, datatype: object) -> None:
        count = len(right) // body.map.size
        _, end = body.map.span(count)
        spread = [np.zeros(max(end, count * body.map.extent) - min(first, 0), np.uint8) for _ in range(2)]
        views = [part[-min(first, 0) :] for part in spread]
        for view, data in zip(views, (left, right), strict=True):
            scattered(body, address_of(view), data)
        function(_kernels.Buffer(views[0]), _kernels.Buffer.frombuffer(views[1]), datatype)
        right[:] = gathered(body, address_of(views[1]), count)

    return combine


def _native_on(operator: str, body: TypeBody) -> _kernels.Reduction | None:
    """Return the compiled operator on a predefined type; None where Open MPI has none."""
    element = "i1" if body.constant in _SMALL else body.code
    is_logical = operator in _LOGICAL
    if is_logical and element == "b1":
        element = "u1"  # any byte but 0 is true
    is_refused = (
        element[0] == "f" or body.constant in _NOT_LOGICAL if is_logical else body.constant in _TRUTHS
    )
    if (is_refused or body.constant == "PACKED") and operator not in _OF_ACCUMULATES:
        return None
    return _native(operator.lower(), element)


@lru_cache
def _native(operator: str, code: str) -> _kernels.Reduction | None:
    """Return the compiled operator on elements of a type: the same one for every call."""
    return _kernels.native_reduction(operator, code)


#: name in the module -> operator
OPERATORS: dict[str, Op] = {
    name: Op._make(name, function, name not in _OF_ACCUMULATES) for name, function in _FUNCTIONS.items()
}
OPERATORS["OP_NULL"] = Op._make("OP_NULL", None, False)


def no_operator(given: Any, also: str = "") -> TypeError:
    """Return the error for a value that is not an operator: the value, what is allowed, what to write."""
    is_word = isinstance(given, str)
    came = repr(given[:40]) if is_word else f"a value of type {type(given).__name__}"
    write = given.upper() if is_word and given.upper() in _FUNCTIONS else "SUM"
    return TypeError(
        f"op: expected an operator such as MPI.SUM or MPI.MAX{also}, got {came}; write op=MPI.{write}"
    )
