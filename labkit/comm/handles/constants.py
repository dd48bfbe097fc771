"""MPI's numbers: wildcards, limits, error classes, comparison results."""

from __future__ import annotations

from typing import Any, Final

from labkit.comm.handles.base import MODULE_NAME

__all__ = ["CONSTANTS", "ERROR_CLASSES", "ERROR_TEXTS", "Constant", "attribute_values"]


class Constant(int):
    """A number of the module that pickles by its name, so that on real MPI it is that library's number.

    Without that a function that caught ``MPI.ANY_SOURCE`` in a variable would take this module's -1 to
    MPICH, where it means PROC_NULL. What the program computes from it (``MPI.ANY_TAG + 0``, a NumPy scalar)
    is a plain int, and so is the constant of a real mpi4py that a function caught: such a number goes to
    another library as it is. Write ``MPI.ANY_SOURCE`` where it is used, inside the program.
    """

    __module__ = MODULE_NAME
    _name: str

    def __new__(cls, value: int, name: str) -> Constant:
        """Make the constant `name` of the module."""
        self = super().__new__(cls, value)
        self._name = name
        return self

    def __reduce__(self) -> Any:
        return self._name


ANY_SOURCE: Final = -1
ANY_TAG: Final = -1
PROC_NULL: Final = -2
ROOT: Final = -4
UNDEFINED: Final = -32766
TAG_UB: Final = 2147483647

#: error class -> MPI's own words for it
ERROR_TEXTS: dict[int, str] = {
    0: "MPI_SUCCESS: no errors",
    1: "MPI_ERR_BUFFER: invalid buffer pointer",
    2: "MPI_ERR_COUNT: invalid count argument",
    3: "MPI_ERR_TYPE: invalid datatype",
    4: "MPI_ERR_TAG: invalid tag",
    5: "MPI_ERR_COMM: invalid communicator",
    6: "MPI_ERR_RANK: invalid rank",
    7: "MPI_ERR_REQUEST: invalid request",
    8: "MPI_ERR_ROOT: invalid root",
    9: "MPI_ERR_GROUP: invalid group",
    10: "MPI_ERR_OP: invalid reduce operation",
    11: "MPI_ERR_TOPOLOGY: invalid communicator topology",
    12: "MPI_ERR_DIMS: invalid topology dimension",
    13: "MPI_ERR_ARG: invalid argument of some other kind",
    14: "MPI_ERR_UNKNOWN: unknown error",
    15: "MPI_ERR_TRUNCATE: message truncated",
    16: "MPI_ERR_OTHER: known error not in list",
    17: "MPI_ERR_INTERN: internal error",
    18: "MPI_ERR_IN_STATUS: error code in status",
    19: "MPI_ERR_PENDING: pending request",
    31: "MPI_ERR_INFO_KEY: invalid info key",
    32: "MPI_ERR_INFO_NOKEY: no such info key",
    33: "MPI_ERR_INFO_VALUE: invalid info value",
    34: "MPI_ERR_INFO: invalid info object",
    36: "MPI_ERR_KEYVAL: invalid attribute key",
    39: "MPI_ERR_NO_MEM: no memory left",
    52: "MPI_ERR_UNSUPPORTED_OPERATION: unsupported operation",
}

#: name -> error class
ERROR_CLASSES: dict[str, int] = {
    "SUCCESS": 0,
    **{text.split(":")[0].removeprefix("MPI_"): number for number, text in ERROR_TEXTS.items() if number},
    "ERR_LASTCODE": 92,
}

_NUMBERS: dict[str, int] = {
    "ANY_SOURCE": ANY_SOURCE,
    "ANY_TAG": ANY_TAG,
    "PROC_NULL": PROC_NULL,
    "ROOT": ROOT,
    "UNDEFINED": UNDEFINED,
    # keys of attributes; Comm.Get_attr gives their values
    "TAG_UB": 0,
    "IO": 2,
    "WTIME_IS_GLOBAL": 3,
    "APPNUM": 4,
    "LASTUSEDCODE": 5,
    "UNIVERSE_SIZE": 6,
    "KEYVAL_INVALID": -1,
    "CART": 1,
    "GRAPH": 2,
    "DIST_GRAPH": 3,
    "COMM_TYPE_SHARED": 0,
    "COMM_TYPE_HW_UNGUIDED": 12,
    "COMM_TYPE_HW_GUIDED": 13,
    "COMM_TYPE_RESOURCE_GUIDED": 14,
    "BSEND_OVERHEAD": 128,
    "IDENT": 0,
    "CONGRUENT": 1,
    "SIMILAR": 2,
    "UNEQUAL": 3,
    "COMBINER_NAMED": 0,
    "THREAD_SINGLE": 0,
    "THREAD_FUNNELED": 1,
    "THREAD_SERIALIZED": 2,
    "THREAD_MULTIPLE": 3,
    "VERSION": 4,
    "SUBVERSION": 1,
    "MAX_PROCESSOR_NAME": 256,
    "MAX_ERROR_STRING": 256,
    "MAX_OBJECT_NAME": 64,
    "MAX_LIBRARY_VERSION_STRING": 256,
    "MAX_INFO_KEY": 36,
    "MAX_INFO_VAL": 256,
    "MAX_PORT_NAME": 1024,
    "MAX_DATAREP_STRING": 128,
    **ERROR_CLASSES,
}

#: every integer constant of the simulated module; the numbers are Open MPI's
CONSTANTS: dict[str, int] = {name: Constant(number, name) for name, number in _NUMBERS.items()}


def attribute_values(ranks: int) -> dict[int, int]:
    """Return the predefined attributes of a communicator in a run of so many ranks, by key."""
    values = {
        "TAG_UB": TAG_UB,
        "IO": ANY_SOURCE,  # every rank can read and write files
        "WTIME_IS_GLOBAL": 1,  # there is one simulated clock
        "APPNUM": 0,
        "LASTUSEDCODE": ERROR_CLASSES["ERR_LASTCODE"],
        "UNIVERSE_SIZE": ranks,
    }
    return {_NUMBERS[name]: value for name, value in values.items()}
