"""Conversions of arguments, as mpi4py makes them: what is a number, a sequence or an object of MPI.

A whole number is anything with ``__int__`` (a float is cut off, a NumPy scalar taken; text and ``__index__``
alone are not); the numbers in a sequence are those with ``__index__``. Which parameter takes what follows
from its name. ``tests/unit/comm/conversions.py`` compares all methods with mpi4py's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from operator import index
from types import CodeType, FunctionType
from typing import Any, cast

import numpy as np

from labkit.checks import echo
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.operators import no_operator
from labkit.comm.place import name_as

__all__ = ["check_root", "convert_functions", "convert_methods", "numbers", "whole"]


_INT, _LONG = 2**31, 2**63


def whole(value: Any, limit: int = _INT, what: str = "") -> int:
    """Return a whole number as C has it.

    Raises
    ------
    TypeError
        It is no number.
    OverflowError
        It does not fit into the C type.
    """
    if type(value) is not int:
        if not hasattr(type(value), "__int__") or isinstance(value, str | bytes):  # NumPy's texts have it
            raise TypeError(f"{what and what + ': '}an integer is required, got {echo(value)}")
        value = value.__int__()
    if not -limit <= value < limit:
        kind = "int" if limit == _INT else "MPI_Aint"
        raise OverflowError(f"{what and what + '='}{value} is too large to convert to {kind}")
    return int(value)


def numbers(value: Any, limit: int = _LONG, or_none: bool = False) -> Any:
    """Return the numbers of a sequence; a scalar, and None if it means something, are the method's matter."""
    if isinstance(value, bool | int) or (value is None and or_none):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu":
        made = value.tolist()
    else:
        made = [index(value[place]) for place in range(len(value))]
    if made and not (-limit <= min(made) and max(made) < limit):
        raise OverflowError(f"{max(made, key=abs)} is too large for a number of MPI")
    return made


def _text(value: object) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {echo(value)}")
    return str(value)


_SHORT, _WIDE = whole, partial(whole, limit=_LONG)
_SHORTS, _WIDES = partial(numbers, limit=_INT), partial(numbers, limit=_LONG)
_SHORTS_OR_NONE = partial(numbers, limit=_INT, or_none=True)


def _dimensions(value: Any) -> object:
    """Return a number of dimensions, or dimensions."""
    if hasattr(type(value), "__index__") and not (isinstance(value, np.ndarray) and value.ndim):
        number = index(value)
        if not -_INT <= number < _INT:
            raise OverflowError(f"dims={number} is too large to convert to int")
        return number
    return _SHORTS(value)


def _ranges(value: Any) -> list[list[int]]:
    """Return ranges of ranks, whose numbers are C's, so that a float is cut off."""
    return [[whole(number) for number in one] for one in value]


def _truth(value: object) -> bool:
    return bool(value)


def _words(text: str, convert: Callable[[object], object]) -> dict[str, Callable[[Any], Any]]:
    return dict.fromkeys(text.split(), convert)


_BY_NAME: dict[str, Callable[[object], object]] = {
    **_words(
        "color key split_type dest tag source sendtag recvtag root keyval rank direction order partition "
        "partition_low partition_high target_rank assertion lock_type amode whence error errorcode "
        "errorclass nnodes local_leader remote_leader partitions required n",
        _SHORT,
    ),
    **_words(
        "count blocklength stride lb extent position size disp disp_unit target_disp offset base addr1 addr2",
        _WIDE,
    ),
    **_words("reorder commute nopython", _truth),
    **_words(
        "dims periods index edges sources destinations sourceweights destweights weights degrees coords "
        "remain_dims ranks distribs dargs psizes",
        _SHORTS,
    ),
    **_words("recvcounts blocklengths displacements sizes subsizes starts gsizes", _WIDES),
    **_words("name datarep pset_name stringtag", _text),
}
#: where a name means something else: by class and method, parameter and conversion; None: it is not converted
_ELSEWHERE: dict[tuple[str, str], dict[str, Callable[[object], object] | None]] = {
    ("Cartcomm", "Shift"): {"disp": _SHORT},
    ("Info", "Get"): {"key": _text},
    ("Info", "Set"): {"key": _text, "value": _text},
    ("Info", "Delete"): {"key": _text},
    ("Info", "get"): {"key": _text},
    ("Info", "pop"): {"key": _text},
    ("module", "Compute_dims"): {"dims": _dimensions},
    ("module", "Add_error_string"): {"string": _text},
    ("module", "Pcontrol"): {"level": _SHORT},
    ("Datatype", "Match_size"): {"typeclass": _SHORT, "size": _SHORT},
    **{
        ("Datatype", f"Create_f90_{kind}"): {"p": _SHORT, "r": _SHORT}
        for kind in ("integer", "real", "complex")
    },
    ("Intracomm", "Create_dist_graph_adjacent"): {
        "sources": _SHORTS_OR_NONE,
        "destinations": _SHORTS_OR_NONE,
    },
    ("File", "Set_view"): {"datarep": lambda value: "native" if value is None else _text(value)},
    ("Group", "Range_incl"): {"ranks": _ranges},
    ("Group", "Range_excl"): {"ranks": _ranges},
    ("Datatype", "Get_value_index"): {"index": None},
    ("Prequest", "Pready_list"): {"partitions": _SHORTS},
    ("Datatype", "Create_darray"): {"size": _SHORT},
    ("File", "Set_atomicity"): {"flag": _truth},
    ("Status", "Set_cancelled"): {"flag": _truth},
    ("Status", "Set_elements"): {"count": _WIDE},
    ("Comm", "Agree"): {"flag": _SHORT},
    ("Intracomm", "Spawn_multiple"): {"info": None},  # one, or one for each command
    ("Cartcomm", "Get_coords"): {"rank": _SHORT},
}
#: the classes of objects, by parameter
_OBJECTS = {
    "info": "Info",
    "group": "Group",
    "group1": "Group",
    "group2": "Group",
    "errhandler": "Errhandler",
    "status": "Status",
    "comm": "Comm",
    "datatype": "Datatype",
    "op": "Op",
}
_INTRA = {
    ("Win", "Create"),
    ("Win", "Allocate"),
    ("Win", "Allocate_shared"),
    ("Win", "Create_dynamic"),
    ("File", "Open"),
}


def _object(kind: type, what: str) -> Callable[[object], object]:
    def check(value: object) -> object:
        if what == "op" and not isinstance(value, kind):
            raise no_operator(value)
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{what}: expected {kind.__name__}, got {type(value).__name__}")
        return value

    return check


def _conversions(
    owner: str, name: str, parameters: Iterable[str], classes: Mapping[str, type]
) -> dict[str, Callable[[object], object]]:
    special = _ELSEWHERE.get((owner, name), {})
    found: dict[str, Callable[[object], object]] = {}
    for one in parameters:
        convert = special[one] if one in special else _BY_NAME.get(one)
        if one in _OBJECTS and one not in special and (one != "op" or name[0].isupper()):
            kind = "Intracomm" if (owner, name) in _INTRA and one == "comm" else _OBJECTS[one]
            convert = _object(classes[kind], one)
        if convert is _SHORT or convert is _WIDE:
            convert = partial(convert, what=one)
        if convert is not None:
            found[one] = convert
    return found


def _converting(owner: str, function: FunctionType, classes: Mapping[str, type]) -> object:
    """Return a function that converts its arguments, of the same signature; None: nothing is to be done."""
    written = cast("FunctionType", inspect.unwrap(function))
    code, name = written.__code__, function.__name__
    plain = code.co_varnames[: code.co_argcount]
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    found = _conversions(owner, name, plain + named, classes)
    if not found or code.co_flags & inspect.CO_VARARGS:
        return None
    is_open = bool(code.co_flags & inspect.CO_VARKEYWORDS)
    compiled = _compiled(
        tuple(one in found for one in plain), named, frozenset(found.keys() & set(named)), is_open
    )
    defaults = written.__defaults__ or ()
    filled = dict(zip(plain[len(plain) - len(defaults) :], defaults, strict=True)) | (
        written.__kwdefaults__ or {}
    )
    space: dict[str, object] = {"_function": function}
    for place, one in [*enumerate(plain), *((one, one) for one in named)]:
        if one in found:
            space[f"_to_{place}"] = _unless_default(filled.get(one, ...), found[one])
    made = FunctionType(compiled.replace(co_varnames=plain + compiled.co_varnames[len(plain) :]), space)
    made.__defaults__, made.__kwdefaults__ = written.__defaults__, written.__kwdefaults__
    name_as(made, name, function.__qualname__)
    made.__doc__, made.__module__ = function.__doc__, function.__module__
    made.__annotations__ = function.__annotations__
    made.__dict__.update(function.__dict__)
    return made


@cache
def _compiled(
    plain: tuple[bool, ...], named: tuple[str, ...], found: frozenset[str], is_open: bool
) -> CodeType:
    """Compile a call of `_function`; its plain arguments are a0, a1, ...: methods differ mostly in names."""
    head = [f"a{place}" for place in range(len(plain))]
    passed = [f"_to_{place}(a{place})" if is_found else f"a{place}" for place, is_found in enumerate(plain)]
    if named:
        head += ["*", *named]
        passed += [f"{one}=_to_{one}({one})" if one in found else f"{one}={one}" for one in named]
    if is_open:
        head.append("**rest")
        passed.append("**rest")
    space: dict[str, FunctionType] = {}
    exec(f"def made({', '.join(head)}): return _function({', '.join(passed)})", space)
    return space["made"].__code__.replace(co_filename=__file__)


def _unless_default(default: object, convert: Callable[[object], object]) -> Callable[[object], object]:
    """Return a conversion that lets a default of None through where MPI has it."""
    if default is not None:
        return convert
    return lambda value: None if value is None else convert(value)


def convert_methods(classes: Mapping[str, type]) -> None:
    """Let the methods of MPI's classes convert their arguments."""
    own = set(classes.values())
    special: set[Any] = set().union(*(type.__subclasses__(cls) for cls in own)) - own
    for cls in [*classes.values(), *special]:
        kind = next(one.__name__ for one in cls.__mro__ if one in own)
        for name, home in _homes(cls).items():
            if home is not cls and home in own:
                continue
            found = vars(home)[name]
            function = found.__func__ if isinstance(found, classmethod | staticmethod) else found
            if not isinstance(function, FunctionType):
                continue
            made = _converting(kind, function, classes)
            if made is not None:
                setattr(cls, name, type(found)(made) if function is not found else made)


def _homes(cls: type) -> dict[str, type]:
    """Return the public attributes of a class, and the base that each is inherited from."""
    return {name: base for base in reversed(cls.__mro__) for name in vars(base) if not name.startswith("_")}


def convert_functions(space: dict[str, object], classes: Mapping[str, type]) -> None:
    """Let the functions of the module convert theirs."""
    for name, function in list(space.items()):
        if isinstance(function, FunctionType) and not name.startswith("_"):
            made = _converting("module", function, classes)
            if made is not None:
                space[name] = made


# Roots of collectives: which rank, or what is wrong with it.


_ERR_ROOT = 8


def check_root(root: object, size: int) -> int:
    """Return a root as a whole number."""
    try:
        rank = whole(root)
    except TypeError:
        raise TypeError(f"root={echo(root)} is no rank: give a whole number, 0 to {size - 1}") from None
    if not 0 <= rank < size:
        raise MPIException(
            _ERR_ROOT, f"root={root} is not a rank of this communicator, which has ranks 0 to {size - 1}"
        )
    return rank
