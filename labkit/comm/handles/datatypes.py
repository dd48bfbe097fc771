"""Datatypes: handles of them, MPI's predefined ones, and how buffers are recognized as one of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from labkit.comm import surface
from labkit.comm.handles.base import MODULE_NAME, Named
from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.info import Keyed, copied, deleted
from labkit.comm.handles.packing import (
    address_of,
    bytes_of,
    charge,
    check_span,
    elements_in,
    external_size,
    from_external,
    gathered,
    is_external_name,
    scattered,
    to_external,
)
from labkit.comm.handles.typebody import (
    NAMED,
    TypeBody,
    Typemap,
    check_small,
    complex_for,
    count_of,
    distributed,
    integer_array,
    integer_for,
    length_of,
    lengths_of,
    matching,
    order_of,
    placed,
    real_for,
    subarray,
    united,
    value_index,
)

__all__ = ["DATATYPES", "DATATYPE_NULL", "Datatype", "_datatype_create", "find_format", "lookup"]

_ERR_TYPE, _ERR_TRUNCATE, _ERR_INTERN = 3, 15, 17
_COMBINERS = {
    int(number): name.removeprefix("COMBINER_")
    for name, number in CONSTANTS.items()
    if name.startswith("COMBINER_") and name != "COMBINER_VALUE_INDEX"
}
_NUMBERS = {name: number for number, name in _COMBINERS.items()}
#: numbers of derived types
_SERIAL = itertools.count()

#: name, MPI's name, NumPy type string, character code; an alias repeats an MPI name
_TABLE = """
CHAR CHAR S1 c | WCHAR WCHAR U1 U | SIGNED_CHAR SIGNED_CHAR i1 b | UNSIGNED_CHAR UNSIGNED_CHAR u1 B
SHORT SHORT i2 h | UNSIGNED_SHORT UNSIGNED_SHORT u2 H | INT INT i4 i | UNSIGNED UNSIGNED u4 I
LONG LONG i8 l | UNSIGNED_LONG UNSIGNED_LONG u8 L | LONG_LONG LONG_LONG_INT i8 q
UNSIGNED_LONG_LONG UNSIGNED_LONG_LONG u8 Q | FLOAT FLOAT f4 f | DOUBLE DOUBLE f8 d
LONG_DOUBLE LONG_DOUBLE f16 g | C_BOOL C_BOOL b1 ? | C_FLOAT_COMPLEX C_FLOAT_COMPLEX c8 F
C_DOUBLE_COMPLEX C_DOUBLE_COMPLEX c16 D | C_LONG_DOUBLE_COMPLEX C_LONG_DOUBLE_COMPLEX c32 G
INT8_T INT8_T i1 b | INT16_T INT16_T i2 h | INT32_T INT32_T i4 i | INT64_T INT64_T i8 l
UINT8_T UINT8_T u1 B | UINT16_T UINT16_T u2 H | UINT32_T UINT32_T u4 I | UINT64_T UINT64_T u8 L
BYTE BYTE u1 B | PACKED PACKED u1 B | AINT AINT i8 p | COUNT COUNT i8 p | OFFSET OFFSET i8 p
CXX_BOOL CXX_BOOL b1 ? | CXX_FLOAT_COMPLEX CXX_FLOAT_COMPLEX c8 F
CXX_DOUBLE_COMPLEX CXX_DOUBLE_COMPLEX c16 D | CXX_LONG_DOUBLE_COMPLEX CXX_LONG_DOUBLE_COMPLEX c32 G
CHARACTER CHARACTER S1 c | LOGICAL LOGICAL i4 i | INTEGER INTEGER i4 i | REAL REAL f4 f
DOUBLE_PRECISION DOUBLE_PRECISION f8 d | COMPLEX COMPLEX c8 F | DOUBLE_COMPLEX DOUBLE_COMPLEX c16 D
LOGICAL1 LOGICAL1 b1 ? | LOGICAL2 LOGICAL2 i2 h | LOGICAL4 LOGICAL4 i4 i | LOGICAL8 LOGICAL8 i8 l
INTEGER1 INTEGER1 i1 b | INTEGER2 INTEGER2 i2 h | INTEGER4 INTEGER4 i4 i | INTEGER8 INTEGER8 i8 l
REAL4 REAL4 f4 f | REAL8 REAL8 f8 d | REAL16 REAL16 f16 g | COMPLEX8 COMPLEX8 c8 F
COMPLEX16 COMPLEX16 c16 D | COMPLEX32 COMPLEX32 c32 G | FLOAT16_T SHORT_FLOAT f2 e
FLOAT_INT FLOAT_INT f4+i4 V | DOUBLE_INT DOUBLE_INT f8+i4 V | LONG_INT LONG_INT i8+i4 V
TWOINT 2INT i4+i4 V | SHORT_INT SHORT_INT i2+i4 V | LONG_DOUBLE_INT LONG_DOUBLE_INT f16+i4 V
"""

_ALIASES = {
    "BOOL": "C_BOOL", "C_COMPLEX": "C_FLOAT_COMPLEX", "FLOAT32_T": "FLOAT", "FLOAT64_T": "DOUBLE",
    "INT_INT": "TWOINT", "SIGNED_INT": "INT", "SIGNED_SHORT": "SHORT", "SIGNED_LONG": "LONG",
    "SIGNED_LONG_LONG": "LONG_LONG", "SINT8_T": "INT8_T", "SINT16_T": "INT16_T", "SINT32_T": "INT32_T",
    "SINT64_T": "INT64_T", "UNSIGNED_INT": "UNSIGNED", "F_BOOL": "LOGICAL", "F_INT": "INTEGER",
    "F_FLOAT": "REAL", "F_DOUBLE": "DOUBLE_PRECISION", "F_COMPLEX": "COMPLEX", "F_FLOAT_COMPLEX": "COMPLEX",
    "F_DOUBLE_COMPLEX": "DOUBLE_COMPLEX",
}  # fmt: skip


#: types of Fortran that no compiler here has: null, as with an MPI without them
_ABSENT = ("BFLOAT16_T", "COMPLEX4", "INTEGER16", "LOGICAL16", "REAL2")


#: datatypes whose strides and displacements are in bytes: 64 bits wide
_IN_BYTES = ("HVECTOR", "HINDEXED", "HINDEXED_BLOCK", "STRUCT")


class Datatype(Keyed, Named):
    """An MPI datatype: a handle of a predefined one, or of one that the program has made.

    Attributes
    ----------
    code : str
        NumPy's kind and size (``"f8"``), or two of them for a value with its location (``"f8+i4"``); of a
        derived type something that no other type has.
    """

    __slots__ = ("_body", "_constant")
    __module__ = MODULE_NAME
    _attribute_kind = "Datatype"
    _known = surface.DATATYPE
    _body: TypeBody

    def __new__(cls, datatype: Datatype | None = None) -> Self:
        """Return a handle of DATATYPE_NULL, or of the datatype given."""
        if datatype is not None and not isinstance(datatype, Datatype):
            raise TypeError(f"datatype: expected a Datatype, got {type(datatype).__name__}")
        return cls._of(_NULL if datatype is None else datatype._body)

    @classmethod
    def _of(cls, body: TypeBody) -> Self:
        self = object.__new__(cls)
        self._constant, self._body = None, body
        return self

    @classmethod
    def _make(cls, constant: str | None, name: str, code: str, char: str) -> Datatype:
        """Make one of the module's own."""
        self = cls._of(_basic_body(constant, name, code, char))
        self._constant = constant
        return self

    @classmethod
    def _predefined(cls, name: str) -> Self:
        """Return a handle of one of the module's own."""
        return cls._of(DATATYPES[name]._body)

    def __repr__(self) -> str:
        return f"labkit.MPI.{self._body.constant or 'Datatype'}"

    def __bool__(self) -> bool:
        return not self._body.is_null

    def __eq__(self, other: object) -> bool:
        return self._body is other._body if isinstance(other, Datatype) else NotImplemented

    __hash__ = None

    def __reduce__(self) -> str | tuple[object, ...]:
        constant = self._body.constant
        if constant is not None:
            return constant if self._constant == constant else (type(self), (DATATYPES[constant],))
        return _datatype_create, (*self.decode(), True)

    def _identity(self) -> object:
        return id(self._body)

    # --- size and bounds ----------------------------------------------------------------------------

    def Get_size(self) -> int:
        """Bytes of data in one element."""
        return self._valid().map.size

    def Get_extent(self) -> tuple[int, int]:
        """Lower bound and extent, in bytes."""
        kind = self._valid().map
        return kind.lb, kind.extent

    def Get_true_extent(self) -> tuple[int, int]:
        """Where the data begin, and how far it is to their end, in bytes."""
        begin, end = self._valid().map.true_bounds
        return begin, end - begin

    size = property(Get_size, doc="Bytes of data in one element.")
    extent = property(lambda self: self.Get_extent()[1], doc="Bytes from one element to the next.")
    lb = property(lambda self: self._valid().map.lb, doc="Lower bound.")
    ub = property(lambda self: self._valid().map.ub, doc="Upper bound.")
    true_extent = property(lambda self: self.Get_true_extent()[1], doc="Bytes from first to last datum.")
    true_lb = property(lambda self: self.Get_true_extent()[0], doc="Where the data begin.")
    true_ub = property(lambda self: self._valid().map.true_bounds[1], doc="Where the data end.")
    code = property(lambda self: self._body.code, doc="NumPy's kind and size.")
    dtype = property(lambda self: self._body.dtype, doc="NumPy's dtype of a predefined type.")

    # --- names --------------------------------------------------------------------------------------

    def Get_name(self) -> str:
        """MPI's name of the type, or the one that it was given."""
        return self._body.name

    def Set_name(self, name: str) -> None:
        """Name it."""
        self._valid().name = str(name)

    name = property(Get_name, Set_name, doc="MPI's name of the type, or the one that it was given.")

    @property
    def typechar(self) -> str:
        """Character code, as in the array module, or "V"."""
        return self._body.char

    @property
    def typestr(self) -> str:
        """NumPy's type string."""
        if self._body.is_null:
            return ""
        return f"V{self._body.map.extent}" if self._body.char == "V" else self._body.code

    def tocode(self) -> str:
        """Character code or type string that `fromcode` takes."""
        if self._body.char in ("V", ""):
            raise ValueError("cannot map to character code or type string")
        return self._body.char

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """Datatype for a character code or a NumPy type string."""
        try:
            return _BY_CODE[code]
        except KeyError:
            raise ValueError(f"cannot map code {code!r} to an MPI datatype") from None

    # --- made of this one ---------------------------------------------------------------------------

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
        number = count_of(count, "count")
        return self._derive("CONTIGUOUS", {"count": number}, *self._blocks([0], [number]))

    def Create_vector(self, count: int, blocklength: int, stride: int) -> Self:
        """Return `count` blocks of `blocklength` elements, from one to the next `stride` elements."""
        return self._strided("VECTOR", count, blocklength, stride, self._valid().map.extent)

    def Create_hvector(self, count: int, blocklength: int, stride: int) -> Self:
        """Return `count` blocks of `blocklength` elements, from one to the next `stride` bytes."""
        return self._strided("HVECTOR", count, blocklength, stride, 1)

    def _strided(self, combiner: str, count: int, blocklength: int, stride: int, unit: int) -> Self:
        number, length = count_of(count, "count"), length_of(blocklength)
        check_small([number, length])
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
        lengths = lengths_of(blocklengths)
        places = integer_array(displacements, len(lengths))
        params = {"blocklengths": lengths.tolist(), "displacements": places.tolist()}
        return self._derive(combiner, params, *self._blocks(places * unit, lengths))

    def Create_indexed_block(self, blocklength: int, displacements: Sequence[int]) -> Self:
        """Return blocks of one length at these places, in elements."""
        return self._alike("INDEXED_BLOCK", blocklength, displacements, self._valid().map.extent)

    def Create_hindexed_block(self, blocklength: int, displacements: Sequence[int]) -> Self:
        """Return blocks of one length at these places, in bytes."""
        return self._alike("HINDEXED_BLOCK", blocklength, displacements, 1)

    def _alike(self, combiner: str, blocklength: int, displacements: Sequence[int], unit: int) -> Self:
        places, length = integer_array(displacements), length_of(blocklength)
        params = {"blocklength": length, "displacements": places.tolist()}
        return self._derive(combiner, params, *self._blocks(places * unit, [length] * len(places)))

    @classmethod
    def Create_struct(
        cls, blocklengths: Sequence[int], displacements: Sequence[int], datatypes: Sequence[object]
    ) -> Self:
        """Return blocks of these lengths at these places, in bytes, each with a separate datatype."""
        lengths = lengths_of(blocklengths).tolist()
        places = integer_array(displacements, len(lengths)).tolist()
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
        shape = integer_array(sizes).tolist()
        part, begins = (integer_array(given, len(shape)).tolist() for given in (subsizes, starts))
        params = {"sizes": shape, "subsizes": part, "starts": begins, "order": order_of(order)}
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
        shape = integer_array(gsizes).tolist()
        check_small(shape)
        ways, blocks, grid = (integer_array(g, len(shape)).tolist() for g in (distribs, dargs, psizes))
        params = {
            "size": int(size),
            "rank": int(rank),
            "gsizes": shape,
            "distribs": ways,
            "dargs": blocks,
            "psizes": grid,
            "order": order_of(order),
        }
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
    def Get_value_index(cls, value: object, index: object) -> Self:
        """Return the pair of these types; DATATYPE_NULL where MPI has none."""
        kinds = _bodies([value, index], 2)
        return cls._predefined(value_index(kinds[0].constant, kinds[1].constant))

    @classmethod
    def Match_size(cls, typeclass: int, size: int) -> Self:
        """Return Fortran's type of a class (TYPECLASS_REAL...) with a size in bytes."""
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
            raise MPIException(_ERR_INTERN, f"{self!r} is predefined: it was not made of others")
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
    is_named = property(lambda self: self._valid().combiner == NAMED, doc="Whether it is predefined by MPI.")
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

    def _blocks(self, places: object, lengths: object) -> tuple[Typemap, int]:
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
        params: dict[str, int | list[int]],
        inputs: list[TypeBody],
        made: Typemap,
        content: list[tuple[TypeBody, int]],
    ) -> Self:
        is_wide = {"CONTIGUOUS": {"count"}, "RESIZED": {"lb", "extent"}}.get(
            combiner, {"stride", "displacements"} if combiner in _IN_BYTES else set()
        )
        for name, value in params.items():
            if name not in is_wide:
                check_small(value if isinstance(value, list) else [value])
        body = TypeBody(None, "", f"derived:{next(_SERIAL)}", "V")
        body.combiner, body.params = _NUMBERS[combiner], params
        body.inputs, body.content, body.map = inputs, content, made
        return cls._of(body)

    @classmethod
    def _parametrised(cls, combiner: str, params: dict[str, object], name: str) -> Self:
        """Return one of Fortran's types by precision: the same one for the same parameters."""
        key = (combiner, *params.values())
        if key not in _BY_PRECISION:
            like = cls._predefined(name)._body
            body = TypeBody(None, "", like.code, like.char)
            body.combiner, body.params = _NUMBERS[combiner], params
            body.map, body.dtype, body.is_committed = like.map, like.dtype, True
            _BY_PRECISION[key] = body
        return cls._of(_BY_PRECISION[key])

    # --- packed -------------------------------------------------------------------------------------

    def Pack(self, inbuf: object, outbuf: object, position: int, comm: object) -> int:
        """Pack all elements of a buffer into another from byte `position` on; where the next one goes."""
        return self._pack(inbuf, outbuf, position)

    def Unpack(self, inbuf: object, position: int, outbuf: object, comm: object) -> int:
        """Fill a buffer with elements from byte `position` of another on; where the next ones are."""
        return self._unpack(inbuf, position, outbuf)

    def Pack_size(self, count: int, comm: object) -> int:
        """Return the bytes of `count` packed elements."""
        check_small([count])
        return int(count) * self._usable().map.size

    def Pack_external(self, datarep: str, inbuf: object, outbuf: object, position: int) -> int:
        """Do as `Pack`, in a form that is the same on every machine: "external32"."""
        return self._pack(inbuf, outbuf, position, is_external_name(datarep))

    def Unpack_external(self, datarep: str, inbuf: object, position: int, outbuf: object) -> int:
        """Do as `Unpack`, from "external32"."""
        return self._unpack(inbuf, position, outbuf, is_external_name(datarep))

    def Pack_external_size(self, datarep: str, count: int) -> int:
        """Return the most bytes that `count` elements take in "external32"."""
        is_external_name(datarep)
        check_small([count])
        return int(count) * self._usable().map.size

    def _usable(self) -> TypeBody:
        """Refuse DATATYPE_NULL and datatypes that are not committed."""
        body = self._body
        if body.is_null or not body.is_committed:
            why = "DATATYPE_NULL, or a datatype that has been freed" if body.is_null else "not committed"
            raise MPIException(_ERR_TYPE, f"the datatype is {why}" + "; call Commit()" * (not body.is_null))
        return body

    def _pack(self, inbuf: object, outbuf: object, position: int, is_external: bool = False) -> int:
        body, begin = self._usable(), int(position)
        given, out = bytes_of(inbuf), bytes_of(outbuf, True)
        count = elements_in(body, given.nbytes)
        end = begin + count * (external_size(body) if is_external else body.map.size)
        if begin < 0 or end > out.nbytes:
            raise MPIException(_ERR_TRUNCATE, f"{end - begin} bytes do not fit at {begin} of {out.nbytes}")
        check_span(body, given.nbytes, count)
        data = np.frombuffer(gathered(body, address_of(given), count), np.uint8)
        out[begin:end] = to_external(body, data) if is_external else data
        charge([(body, count)], is_call=False)
        return end

    def _unpack(self, inbuf: object, position: int, outbuf: object, is_external: bool = False) -> int:
        body, begin = self._usable(), int(position)
        given, out = bytes_of(inbuf), bytes_of(outbuf, True)
        count = elements_in(body, out.nbytes)
        end = begin + count * (external_size(body) if is_external else body.map.size)
        if begin < 0 or end > given.nbytes:
            raise MPIException(
                _ERR_TRUNCATE, f"there are no {end - begin} bytes at {begin} of {given.nbytes}"
            )
        check_span(body, out.nbytes, count)
        data = given[begin:end]
        scattered(body, address_of(out), from_external(body, data) if is_external else data)
        charge([(body, count)], is_call=False)
        return end

    # --- life ---------------------------------------------------------------------------------------

    def Commit(self) -> Self:
        """Make it ready for messages."""
        self._valid().is_committed = True
        return self

    def Free(self) -> None:
        """Give the handle back; it becomes DATATYPE_NULL. Messages under way keep what they need."""
        body = self._valid()
        if body.constant is not None or body.is_parametrised:
            raise MPIException(_ERR_TYPE, f"{self!r} is predefined and cannot be freed")
        deleted(self)
        self._body = _NULL

    def _kept(self) -> dict[int, object]:
        """Return the attributes that the program has set."""
        return self._valid().attributes

    def free(self) -> None:
        """Give it back; a handle of a predefined type becomes null, the module's own stays unchanged."""
        if self and self._constant is None:
            if self.is_predefined:
                self._body = _NULL
            else:
                self.Free()

    def _valid(self) -> TypeBody:
        """Refuse DATATYPE_NULL."""
        if self._body.is_null:
            raise MPIException(_ERR_TYPE, "this is DATATYPE_NULL, or a datatype that has been freed")
        return self._body


_BY_PRECISION: dict[tuple[object, ...], TypeBody] = {}

#: parameters whose length comes first; those that are addresses, not integers
_COUNTED = {
    "INDEXED": ("displacements",),
    "HINDEXED": ("displacements",),
    "INDEXED_BLOCK": ("displacements",),
    "HINDEXED_BLOCK": ("displacements",),
    "STRUCT": ("displacements",),
    "SUBARRAY": ("sizes",),
    "DARRAY": ("gsizes",),
}
_ADDRESSES = {
    "HVECTOR": ("stride",),
    "HINDEXED": ("displacements",),
    "HINDEXED_BLOCK": ("displacements",),
    "STRUCT": ("displacements",),
    "RESIZED": ("lb", "extent"),
}


def _flat(values: list[Any]) -> list[int]:
    return [number for value in values for number in (value if isinstance(value, list) else [value])]


def _body(datatype: object) -> TypeBody:
    if not isinstance(datatype, Datatype):
        raise TypeError(f"expected a Datatype, got {type(datatype).__name__}")
    return datatype._body


def _bodies(datatypes: Sequence[object], count: int) -> list[TypeBody]:
    kinds = [_body(datatype) for datatype in datatypes]
    if len(kinds) != count:
        raise ValueError(f"expecting {count} items, got {len(kinds)}")
    if any(kind.is_null for kind in kinds):
        raise MPIException(_ERR_TYPE, "one of the datatypes is DATATYPE_NULL")
    return kinds


_NULL = TypeBody("DATATYPE_NULL", "MPI_DATATYPE_NULL", "", "")
DATATYPE_NULL = Datatype._of(_NULL)
DATATYPE_NULL._constant = "DATATYPE_NULL"


def _predefined() -> dict[str, Datatype]:
    made: dict[str, Datatype] = {"DATATYPE_NULL": DATATYPE_NULL}
    for row in _TABLE.replace("\n", "|").split("|"):
        if row.strip():
            constant, name, code, char = row.split()
            made[constant] = Datatype._make(constant, f"MPI_{name}", code, char)
    absent = dict.fromkeys(_ABSENT, DATATYPE_NULL)
    return made | {alias: made[name] for alias, name in _ALIASES.items()} | absent


def _basic_body(constant: str | None, name: str, code: str, char: str) -> TypeBody:
    """Return what a predefined type is."""
    parts = [np.dtype(part) for part in (code or "V0").split("+")]
    fields = [("value", parts[0]), ("index", parts[-1])]
    dtype = np.dtype(fields, align=True) if len(parts) == 2 else parts[0]
    places = tuple(dtype.fields[field][1] for field, _ in fields) if dtype.fields else (0,)
    sizes = tuple(part.itemsize for part in parts)
    body = TypeBody(constant, name, code, char)
    body.dtype, body.is_committed = dtype, True
    body.map = Typemap.of_basic(sizes, places, dtype.itemsize, dtype.alignment)
    return body


#: name in the module -> datatype
DATATYPES: dict[str, Datatype] = _predefined()


def _codes() -> dict[str, Datatype]:
    found: dict[str, Datatype] = {}
    for name in (
        *("SIGNED_CHAR", "SHORT", "INT", "LONG", "LONG_LONG", "UNSIGNED_CHAR", "UNSIGNED_SHORT", "UNSIGNED"),
        *(
            "UNSIGNED_LONG",
            "UNSIGNED_LONG_LONG",
            "C_BOOL",
            "FLOAT",
            "DOUBLE",
            "LONG_DOUBLE",
            "FLOAT16_T",
            "CHAR",
        ),
        *("C_FLOAT_COMPLEX", "C_DOUBLE_COMPLEX", "C_LONG_DOUBLE_COMPLEX", "AINT", "WCHAR"),
    ):
        found[DATATYPES[name].typechar] = DATATYPES[name]
    for name in ("INT8_T", "INT16_T", "INT32_T", "INT64_T", "UINT8_T", "UINT16_T", "UINT32_T", "UINT64_T"):
        found[DATATYPES[name].code] = DATATYPES[name]
    for name in ("C_BOOL", "FLOAT16_T", "FLOAT", "DOUBLE", "LONG_DOUBLE"):
        found[DATATYPES[name].code] = DATATYPES[name]
    for name in ("C_FLOAT_COMPLEX", "C_DOUBLE_COMPLEX", "C_LONG_DOUBLE_COMPLEX"):
        found[DATATYPES[name].code] = found["Z" + DATATYPES[name].typechar.lower()] = DATATYPES[name]
    same = {"n": "l", "N": "L", "P": "p", "a": "c", "S": "c", "S1": "c", "s": "c", "1s": "c"}
    found |= {alias: found[char] for alias, char in same.items()}
    found |= dict.fromkeys(("U1", "u", "1u", "w", "1w"), found["U"])
    found |= dict.fromkeys(("M", "M8", "m", "m8"), DATATYPES["INT64_T"])
    return found


_BY_CODE: dict[str, Datatype] = _codes()


def lookup(datatype: Datatype | str) -> Datatype:
    """Return the datatype for a datatype or a code."""
    if isinstance(datatype, Datatype):
        return datatype
    try:
        return _BY_CODE[datatype]
    except KeyError:
        raise KeyError(f"cannot map {datatype!r} to MPI datatype") from None


def find_format(code: str | None) -> Datatype:
    """Return the datatype for a buffer's format."""
    if code is None or code == "B":
        return DATATYPES["BYTE"]
    if code[0] == ">":
        raise BufferError(f"format string {code!r} with non-native byte order")
    return lookup(code[1:] if code[0] in "@<" else code)


def _datatype_create(
    datatype: Datatype, combiner: str, params: dict[str, object], free: bool = False
) -> Datatype:
    """Make a datatype again from what `Datatype.decode` has said of it; mpi4py has the same function."""
    made: Datatype = getattr(datatype, f"Create_{combiner.lower()}")(**params)
    return made.Commit()


_datatype_create.__module__ = MODULE_NAME
