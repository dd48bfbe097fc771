"""The body of a datatype: its layout, apart from its handles."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.typemap import Typemap

__all__ = ["NAMED", "TypeBody", "type_words"]

NAMED = int(CONSTANTS["COMBINER_NAMED"])
_PARAMETRISED = tuple(int(CONSTANTS[f"COMBINER_F90_{kind}"]) for kind in ("INTEGER", "REAL", "COMPLEX"))

_NO_DTYPE = np.dtype("V0")


class TypeBody:
    """What a datatype is: shared by all handles of it.

    Attributes
    ----------
    constant : str or None
        Its name in the module, of predefined types.
    name, code, char : str
    combiner : int
        How it was made; `params` with what, by the names of the method's parameters, and of which types.
    inputs : list of TypeBody
    content : list of (TypeBody, int)
        Of how many elements of which types an element is made, in the order of packing.
    map : Typemap
    is_null : bool
        Whether it is DATATYPE_NULL.
    """

    __slots__ = (
        "attributes", "char", "code", "combiner", "constant", "content", "dtype", "inputs", "is_committed",
        "is_null", "map", "name", "params",
    )  # fmt: skip
    map: Typemap

    def __init__(self, constant: str | None, name: str, code: str, char: str) -> None:
        self.constant, self.name, self.code, self.char = constant, name, code, char
        self.is_null = constant == "DATATYPE_NULL"
        self.combiner = NAMED
        self.params: dict[str, Any] = {}
        self.inputs: list[TypeBody] = []
        self.content: list[tuple[TypeBody, int]] = []
        self.dtype: Any = _NO_DTYPE
        self.is_committed = False
        self.attributes: dict[int, Any] = {}

    @property
    def is_parametrised(self) -> bool:
        """Whether it is one of Fortran's types by precision."""
        return self.combiner in _PARAMETRISED

    def basics(self) -> list[tuple[TypeBody, int]]:
        """Return the basic types of an element and how many of each, in the order of packing."""
        if not self.content:
            return [(self, 1)] if self.map.size else []
        found: list[tuple[TypeBody, int]] = []
        for inner, times in self.content:
            parts = inner.basics()
            if len(parts) == 1:
                parts = [(parts[0][0], parts[0][1] * times)]
            else:
                parts = parts * times
            for kind, count in parts:
                if found and found[-1][0] is kind:
                    found[-1] = (kind, found[-1][1] + count)
                else:
                    found.append((kind, count))
        return found


def type_words(datatype: Any) -> str:
    """Say which datatype it is, of this module or of mpi4py's: by its name, else by what it is made of.

    >>> from labkit import MPI
    >>> type_words(MPI.INT), type_words(MPI.DOUBLE.Create_vector(6, 1, 5))
    ('MPI_INT', 'a derived datatype (VECTOR of MPI_DOUBLE, 48 bytes of data, extent 208 bytes)')
    """
    if not datatype:
        return "DATATYPE_NULL"
    if datatype.is_predefined or (datatype.name and not datatype.name.startswith("Dup ")):
        return str(datatype.name)
    inner, combiner, params = datatype.decode()
    parts = params.get("datatypes") or [inner]
    names = sorted({part.name or "derived datatypes" for part in parts})
    for part in parts:
        if not part.is_predefined:
            part.Free()  # a handle of its own: the datatype stays
    return (
        f"a derived datatype ({combiner} of {', '.join(names)}, {datatype.size} bytes of data, "
        f"extent {datatype.extent} bytes)"
    )
