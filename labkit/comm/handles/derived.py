"""Datatypes that a program makes of others, and what they say of their making."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.keyvals import copied
from labkit.comm.handles.typebody import NAMED, TypeBody, Typemap, placed, united

__all__ = ["DerivedTypes"]


_ERR_COUNT, _ERR_TYPE, _ERR_ARG = 2, 3, 13
_COMBINERS = {
    int(number): name.removeprefix("COMBINER_")
    for name, number in CONSTANTS.items()
    if name.startswith("COMBINER_") and name != "COMBINER_VALUE_INDEX"
}
_NUMBERS = {name: number for number, name in _COMBINERS.items()}

_codes = itertools.count()


class DerivedTypes:
    """The constructors of a datatype, and how one is taken apart again."""

    _body: TypeBody
    _valid: Callable[[], TypeBody]
    _of: Callable[[TypeBody], Self]
    _predefined: Callable[[str], Self]

    def Dup(self) -> Self:
        """Return a datatype like this one."""
        old = self._valid()
        made = self._derive("DUP", {}, old.map)
        made._body.code, made._body.char, made._body.dtype = old.code, old.char, old.dtype
        made._body.name, made._body.is_committed = f"Dup {old.name}", old.is_committed
        copied(self, made)
        return made

    Create_dup = Dup

    def Create_contiguous(self, count: int) -> Self:
        """Return `count` elements in a row."""
        number = _count(count, "count")
        return self._derive("CONTIGUOUS", {"count": number}, *self._blocks([0], [number]))

    def Create_vector(self, count: int, blocklength: int, stride: int) -> Self:
        """Return `count` blocks of `blocklength` elements, from one to the next `stride` elements."""
        return self._strided("VECTOR", count, blocklength, stride, self._valid().map.extent)

    def Create_hvector(self, count: int, blocklength: int, stride: int) -> Self:
        """Return `count` blocks of `blocklength` elements, from one to the next `stride` bytes."""
        return self._strided("HVECTOR", count, blocklength, stride, 1)

    def _strided(self, combiner: str, count: int, blocklength: int, stride: int, unit: int) -> Self:
        number, length = _count(count, "count"), _length(blocklength)
        _check_small([number, length])
        params = {"count": number, "blocklength": length, "stride": int(stride)}
        places = np.arange(number, dtype=np.int64) * (int(stride) * unit)
        return self._derive(combiner, params, *self._blocks(places, [length] * number))

    def Create_indexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Self:
        """Return blocks of these lengths at these places, in elements."""
        return self._listed("INDEXED", blocklengths, displacements, self._valid().map.extent)

    def Create_hindexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Self:
        """Return blocks of these lengths at these places, in bytes."""
        return self._listed("HINDEXED", blocklengths, displacements, 1)

    def _listed(
        self, combiner: str, blocklengths: Sequence[int], displacements: Sequence[int], unit: int
    ) -> Self:
        lengths = _lengths(blocklengths)
        places = _numbers(displacements, len(lengths))
        params = {"blocklengths": lengths.tolist(), "displacements": places.tolist()}
        return self._derive(combiner, params, *self._blocks(places * unit, lengths))

    def Create_indexed_block(self, blocklength: int, displacements: Sequence[int]) -> Self:
        """Return blocks of one length at these places, in elements."""
        return self._alike("INDEXED_BLOCK", blocklength, displacements, self._valid().map.extent)

    def Create_hindexed_block(self, blocklength: int, displacements: Sequence[int]) -> Self:
        """Return blocks of one length at these places, in bytes."""
        return self._alike("HINDEXED_BLOCK", blocklength, displacements, 1)

    def _alike(self, combiner: str, blocklength: int, displacements: Sequence[int], unit: int) -> Self:
        places, length = _numbers(displacements), _length(blocklength)
        params = {"blocklength": length, "displacements": places.tolist()}
        return self._derive(combiner, params, *self._blocks(places * unit, [length] * len(places)))

    @classmethod
    def Create_struct(
        cls, blocklengths: Sequence[int], displacements: Sequence[int], datatypes: Sequence[Any]
    ) -> Self:
        """Return blocks of these lengths at these places, in bytes, each of a datatype of its own."""
        lengths = _lengths(blocklengths).tolist()
        places = _numbers(displacements, len(lengths)).tolist()
        kinds = _bodies(datatypes, len(lengths))
        parts = [
            kind.map.moved(place) if length == 1 else placed(kind.map, np.array([place]), np.array([length]))
            for kind, place, length in zip(kinds, places, lengths, strict=True)
            if length
        ]
        params = {"blocklengths": lengths, "displacements": places}
        content = list(zip(kinds, lengths, strict=True))
        return cls._made("STRUCT", params, kinds, united(parts), content)

    def Create_subarray(
        self, sizes: Sequence[int], subsizes: Sequence[int], starts: Sequence[int], order: int = 0
    ) -> Self:
        """Return a part of an array of several dimensions; its extent is the whole array's.

        Parameters
        ----------
        sizes, subsizes, starts : sequence of int
            Of the array, of the part, and where the part begins, by dimension.
        order : int
            ORDER_C or ORDER_F.
        """
        shape = _numbers(sizes).tolist()
        part, begins = (_numbers(given, len(shape)).tolist() for given in (subsizes, starts))
        params = {"sizes": shape, "subsizes": part, "starts": begins, "order": _order(order)}
        made = subarray(self._valid().map, shape, part, begins, params["order"] == CONSTANTS["ORDER_C"])
        return self._derive("SUBARRAY", params, made, self._times(made))

    def Create_darray(
        self,
        size: int,
        rank: int,
        gsizes: Sequence[int],
        distribs: Sequence[int],
        dargs: Sequence[int],
        psizes: Sequence[int],
        order: int = 0,
    ) -> Self:
        """Return a rank's part of an array that is distributed over a grid of ranks.

        Parameters
        ----------
        size, rank : int
            Number of ranks in the grid, and which one's part.
        gsizes, psizes : sequence of int
            Of the array and of the grid, by dimension.
        distribs, dargs : sequence of int
            DISTRIBUTE_BLOCK, _CYCLIC or _NONE, and the block size or DISTRIBUTE_DFLT_DARG.
        order : int
            ORDER_C or ORDER_F.
        """
        shape = _numbers(gsizes).tolist()
        _check_small(shape)
        ways, blocks, grid = (_numbers(g, len(shape)).tolist() for g in (distribs, dargs, psizes))
        params = {
            "size": int(size), "rank": int(rank), "gsizes": shape, "distribs": ways, "dargs": blocks,
            "psizes": grid, "order": _order(order),
        }  # fmt: skip
        is_c = params["order"] == CONSTANTS["ORDER_C"]
        made = distributed(self._valid().map, int(size), int(rank), (shape, ways, blocks, grid), is_c)
        return self._derive("DARRAY", params, made, self._times(made))

    def Create_resized(self, lb: int, extent: int) -> Self:
        """Return the same data with another lower bound and extent."""
        params = {"lb": int(lb), "extent": int(extent)}
        return self._derive("RESIZED", params, self._valid().map.resized(int(lb), int(extent)))

    Resized = Create_resized

    # --- MPI's own, by what they hold -----------------------------------------------------------------

    @classmethod
    def Get_value_index(cls, value: Any, index: Any) -> Self:
        """Return the pair of these types; DATATYPE_NULL where MPI has none."""
        kinds = _bodies([value, index], 2)
        return cls._predefined(value_index(kinds[0].constant, kinds[1].constant))

    @classmethod
    def Match_size(cls, typeclass: int, size: int) -> Self:
        """Return Fortran's type of a class (TYPECLASS_REAL...) with so many bytes."""
        return cls._predefined(matching(int(typeclass), int(size)))

    @classmethod
    def Create_f90_integer(cls, r: int) -> Self:
        """Return an integer of `r` decimal digits."""
        return cls._parametrised("F90_INTEGER", {"r": int(r)}, integer_for(int(r)))

    @classmethod
    def Create_f90_real(cls, p: int, r: int) -> Self:
        """Return a real of `p` digits and an exponent range of `r`."""
        return cls._parametrised("F90_REAL", {"p": int(p), "r": int(r)}, real_for(int(p), int(r)))

    @classmethod
    def Create_f90_complex(cls, p: int, r: int) -> Self:
        """Return a complex number of `p` digits and an exponent range of `r`."""
        return cls._parametrised("F90_COMPLEX", {"p": int(p), "r": int(r)}, complex_for(int(p), int(r)))

    # --- how it was made ------------------------------------------------------------------------------

    def Get_envelope(self) -> tuple[int, int, int, int, int]:
        """Return how many integers, addresses, large counts and datatypes it was made with, and how."""
        integers, addresses, _, kinds = self._contents()
        return len(integers), len(addresses), 0, len(kinds), self._body.combiner

    def Get_contents(self) -> tuple[list[int], list[int], list[int], list[Any]]:
        """Return the integers, addresses, large counts (none) and datatypes that it was made with."""
        if self._valid().combiner == NAMED:
            raise MPIException(_ERR_TYPE, f"{self!r} is predefined: it was not made of others")
        integers, addresses, counts, kinds = self._contents()
        return integers, addresses, counts, [type(self)._of(kind) for kind in kinds]

    def decode(self) -> tuple[Any, str, dict[str, Any]]:
        """Return the datatype it was made of, how, and with what parameters."""
        body = self._valid()
        if body.combiner == NAMED:
            return self, "NAMED", {}
        kinds = [self._of(kind) for kind in body.inputs]
        params, combiner = dict(body.params), _COMBINERS[body.combiner]
        if combiner == "STRUCT":
            params["datatypes"] = kinds
        old = kinds[0] if len(kinds) == 1 else type(self)()
        return old, combiner, params

    envelope = property(Get_envelope, doc="How many numbers and datatypes it was made with, and how.")
    contents = property(Get_contents, doc="The numbers and datatypes it was made with.")
    combiner = property(lambda self: self._valid().combiner, doc="How it was made: a COMBINER_ constant.")
    is_named = property(lambda self: self._valid().combiner == NAMED, doc="Whether it has a name of its own.")
    is_predefined = property(
        lambda self: self._body.combiner == NAMED or self._body.is_parametrised,
        doc="Whether MPI defines it.",
    )

    def _contents(self) -> tuple[list[int], list[int], list[int], list[TypeBody]]:
        """Return the arguments in the order of MPI 4.1, section 5.1.13."""
        body = self._valid()
        name, given = _COMBINERS.get(body.combiner, "NAMED"), body.params
        places = [given[key] for key in _ADDRESSES.get(name, ())]
        numbers = [value for key, value in given.items() if key not in _ADDRESSES.get(name, ())]
        integers = [len(given[key]) for key in _COUNTED.get(name, ())] + _flat(numbers)
        addresses = _flat(places)
        if name == "DARRAY":  # the number of dimensions comes after size and rank
            integers[:3] = [integers[1], integers[2], integers[0]]
        return integers, addresses, [], body.inputs

    # --- how all of them are made -----------------------------------------------------------------------

    def _blocks(self, places: Any, lengths: Any) -> tuple[Typemap, int]:
        counts = np.asarray(lengths, np.int64)
        return placed(self._valid().map, np.asarray(places, np.int64), counts), int(counts.sum())

    def _times(self, made: Typemap) -> int:
        """Return of how many elements of this type a map is made."""
        return made.size // self._body.map.size if self._body.map.size else 0

    def _derive(self, combiner: str, params: dict[str, Any], made: Typemap, times: int = 1) -> Self:
        body = self._valid()
        return self._made(combiner, params, [body], made, [(body, times)])

    @classmethod
    def _made(
        cls,
        combiner: str,
        params: dict[str, Any],
        inputs: list[TypeBody],
        made: Typemap,
        content: list[tuple[TypeBody, int]],
    ) -> Self:
        body = TypeBody(None, "", f"derived:{next(_codes)}", "V")
        body.combiner, body.params = _NUMBERS[combiner], params
        body.inputs, body.content, body.map = inputs, content, made
        return cls._of(body)

    @classmethod
    def _parametrised(cls, combiner: str, params: dict[str, Any], name: str) -> Self:
        """Return one of Fortran's types by precision: the same one for the same parameters."""
        key = (combiner, *params.values())
        if key not in _BY_PRECISION:
            like = cls._predefined(name)._body
            body = TypeBody(None, "", like.code, like.char)
            body.combiner, body.params = _NUMBERS[combiner], params
            body.map, body.dtype, body.is_committed = like.map, like.dtype, True
            _BY_PRECISION[key] = body
        return cls._of(_BY_PRECISION[key])


_BY_PRECISION: dict[tuple[Any, ...], TypeBody] = {}

#: parameters whose length comes first; those that are addresses, not integers
_COUNTED = {
    "INDEXED": ("displacements",), "HINDEXED": ("displacements",), "INDEXED_BLOCK": ("displacements",),
    "HINDEXED_BLOCK": ("displacements",), "STRUCT": ("displacements",), "SUBARRAY": ("sizes",),
    "DARRAY": ("gsizes",),
}  # fmt: skip
_ADDRESSES = {
    "HVECTOR": ("stride",), "HINDEXED": ("displacements",), "HINDEXED_BLOCK": ("displacements",),
    "STRUCT": ("displacements",), "RESIZED": ("lb", "extent"),
}  # fmt: skip


def _flat(values: list[Any]) -> list[int]:
    return [number for value in values for number in (value if isinstance(value, list) else [value])]


def _body(datatype: Any) -> TypeBody:
    if not isinstance(datatype, DerivedTypes):
        raise TypeError(f"expected a Datatype, got {type(datatype).__name__}")
    return datatype._body


def _bodies(datatypes: Sequence[Any], count: int) -> list[TypeBody]:
    kinds = [_body(datatype) for datatype in datatypes]
    if len(kinds) != count:
        raise ValueError(f"expecting {count} items, got {len(kinds)}")
    if any(kind.is_null for kind in kinds):
        raise MPIException(_ERR_TYPE, "one of the datatypes is DATATYPE_NULL")
    return kinds


def _count(value: Any, what: str) -> int:
    number = int(value)
    if number < 0:
        raise MPIException(_ERR_COUNT, f"{what}={number}: it is 0 or more")
    return number


def _check_small(numbers: Sequence[int]) -> None:
    """Refuse more pieces than MPI libraries count in an int."""
    if any(number >= 2**31 for number in numbers):
        raise MPIException(_ERR_ARG, f"{max(numbers)} is more than fits into an int of C")


def _length(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise MPIException(_ERR_ARG, f"blocklength={number}: it is 0 or more")
    return number


def _lengths(values: Sequence[int]) -> NDArray[np.int64]:
    lengths = _numbers(values)
    if len(lengths) and lengths.min() < 0:
        raise MPIException(_ERR_ARG, f"blocklengths={lengths.tolist()}: they are 0 or more")
    return lengths


def _numbers(values: Sequence[int], count: int | None = None) -> NDArray[np.int64]:
    numbers = np.array([operator.index(value) for value in values], np.int64)
    if count is not None and len(numbers) != count:
        raise ValueError(f"expecting {count} items, got {len(numbers)}")
    return numbers


def _order(order: int) -> int:
    if order not in (CONSTANTS["ORDER_C"], CONSTANTS["ORDER_F"]):
        raise MPIException(_ERR_ARG, f"order={order} is neither ORDER_C nor ORDER_F")
    return int(order)


# Fortran's types by precision, class or size, and pairs: the names of the types that there are.


#: decimal digits that an integer of a type has
_INTEGERS = ((2, "INTEGER1"), (4, "INTEGER2"), (9, "INTEGER4"), (18, "INTEGER8"))
#: decimal digits and range of exponents of a real
_REALS = ((6, 37, "REAL4"), (15, 307, "REAL8"), (18, 4931, "REAL16"))
_COMPLEX = {"REAL4": "COMPLEX8", "REAL8": "COMPLEX16", "REAL16": "COMPLEX32"}
_MATCHES = {
    "INTEGER": {1: "INTEGER1", 2: "INTEGER2", 4: "INTEGER", 8: "INTEGER8"},
    "REAL": {4: "REAL", 8: "REAL8", 16: "REAL16"},
    "COMPLEX": {8: "COMPLEX", 16: "COMPLEX16", 32: "COMPLEX32"},
    "LOGICAL": {1: "LOGICAL1", 2: "LOGICAL2", 4: "LOGICAL", 8: "LOGICAL8"},
}


def integer_for(digits: int) -> str:
    """Return the smallest integer of so many digits; ERR_ARG where there is none."""
    for most, name in _INTEGERS:
        if digits <= most:
            return name
    raise MPIException(_ERR_ARG, f"no integer has {digits} decimal digits; the longest has 18")


def real_for(digits: int, exponents: int) -> str:
    """Return the smallest real of a precision and range; ERR_ARG where there is none."""
    for most, widest, name in _REALS:
        if digits <= most and exponents <= widest:
            return name
    raise MPIException(_ERR_ARG, f"no real has {digits} digits and exponents to {exponents}")


def complex_for(digits: int, exponents: int) -> str:
    """Return the smallest complex number of a precision and range."""
    return _COMPLEX[real_for(digits, exponents)]


def matching(typeclass: int, size: int) -> str:
    """Return the type of a class with so many bytes; ERR_ARG where there is none."""
    for name, sizes in _MATCHES.items():
        if typeclass == CONSTANTS[f"TYPECLASS_{name}"] and size in sizes:
            return sizes[size]
    raise MPIException(_ERR_ARG, f"no type of class {typeclass} has {size} bytes")


def value_index(value: str | None, index: str | None) -> str:
    """Return the pair of two types; DATATYPE_NULL where MPI has none."""
    pairs = {"FLOAT": "FLOAT_INT", "DOUBLE": "DOUBLE_INT", "LONG": "LONG_INT", "INT": "TWOINT"}
    pairs |= {"SHORT": "SHORT_INT", "LONG_DOUBLE": "LONG_DOUBLE_INT"}
    return pairs.get(value or "", "DATATYPE_NULL") if index == "INT" else "DATATYPE_NULL"


# Parts of arrays as typemaps: subarrays and distributed arrays (MPI 4.1, sections 5.1.3 and 5.1.4).


_BLOCK, _CYCLIC, _NONE = (int(CONSTANTS[f"DISTRIBUTE_{way}"]) for way in ("BLOCK", "CYCLIC", "NONE"))
_DEFAULT = int(CONSTANTS["DISTRIBUTE_DFLT_DARG"])


def subarray(
    inner: Typemap, sizes: list[int], subsizes: list[int], starts: list[int], is_c_order: bool
) -> Typemap:
    """Return the map of a part of an array."""
    for size, part, start in zip(sizes, subsizes, starts, strict=True):
        if size < 1 or not 1 <= part <= size or not 0 <= start <= size - part:
            raise MPIException(
                _ERR_ARG, f"a part of {part} from {start} on is not in a dimension of {size} elements"
            )
    if not sizes:
        return placed(inner, np.zeros(0, np.int64), np.zeros(0, np.int64))
    indices = [np.arange(start, start + part) for start, part in zip(starts, subsizes, strict=True)]
    return _of_indices(inner, sizes, indices, is_c_order)


def distributed(
    inner: Typemap,
    size: int,
    rank: int,
    axes: tuple[list[int], list[int], list[int], list[int]],
    is_c_order: bool,
) -> Typemap:
    """Return the map of a rank's part of a distributed array."""
    shape, ways, blocks, grid = axes
    if math.prod(grid) != size or not 0 <= rank < size or min([*shape, *grid, 1]) < 1:
        raise MPIException(_ERR_ARG, f"rank {rank} of {size} has no place in a grid {grid}")
    indices = []
    for axis in range(len(shape) - 1, -1, -1):
        rank, place = divmod(rank, grid[axis])
        indices.append(_share(shape[axis], ways[axis], blocks[axis], grid[axis], place))
    return _of_indices(inner, shape, indices[::-1], is_c_order)


def _share(length: int, way: int, block: int, ranks: int, place: int) -> NDArray[np.int64]:
    """Return the indices that a rank of a grid's dimension has."""
    if way == _NONE:
        if ranks != 1:
            raise MPIException(_ERR_ARG, f"a dimension that is not distributed is given {ranks} ranks")
        return np.arange(length)
    if way == _BLOCK:
        width = -(-length // ranks) if block == _DEFAULT else block
        if width < 1 or width * ranks < length:
            raise MPIException(_ERR_ARG, f"blocks of {block} on {ranks} ranks do not hold {length} elements")
        return np.arange(place * width, min(length, (place + 1) * width))
    if way == _CYCLIC:
        width = 1 if block == _DEFAULT else block
        if width < 1:
            raise MPIException(_ERR_ARG, f"blocks have 1 element or more, not {block}")
        return np.flatnonzero(np.arange(length) // width % ranks == place)
    raise MPIException(_ERR_ARG, f"{way} is no way to distribute: use DISTRIBUTE_BLOCK, _CYCLIC or _NONE")


def _of_indices(
    inner: Typemap, shape: list[int], indices: list[NDArray[np.int64]], is_c_order: bool
) -> Typemap:
    """Return the map of all elements with these indices; its extent is the whole array's."""
    stride, made = inner.extent, inner
    for axis in range(len(shape) - 1, -1, -1) if is_c_order else range(len(shape)):
        made = placed(made, indices[axis] * stride, np.ones(len(indices[axis]), np.int64))
        stride *= shape[axis]
    return made.resized(0, inner.extent * math.prod(shape))
