"""MPI's numbers: wildcards, limits, error classes, comparison results."""

from __future__ import annotations

from typing import Final

__all__ = ["CONSTANTS", "ERROR_CLASSES", "ERROR_TEXTS"]

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
}

#: name -> error class
ERROR_CLASSES: dict[str, int] = {
    "SUCCESS": 0,
    **{text.split(":")[0].removeprefix("MPI_"): number for number, text in ERROR_TEXTS.items() if number},
    "ERR_LASTCODE": 92,
}

#: every integer constant of the simulated module
CONSTANTS: dict[str, int] = {
    "ANY_SOURCE": ANY_SOURCE,
    "ANY_TAG": ANY_TAG,
    "PROC_NULL": PROC_NULL,
    "ROOT": ROOT,
    "UNDEFINED": UNDEFINED,
    "TAG_UB": 0,  # the attribute's key; Comm.Get_attr gives its value
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
    **ERROR_CLASSES,
}
