"""MPI's numbers: wildcards, limits, error classes, comparison results."""

from __future__ import annotations

from typing import Final

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

    def __reduce__(self) -> str | tuple[object, ...]:
        return self._name


ANY_SOURCE: Final = -1
ANY_TAG: Final = -1
PROC_NULL: Final = -2
ROOT: Final = -4
UNDEFINED: Final = -32766
TAG_UB: Final = 2147483647

#: error class -> its text in Open MPI
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
    20: "MPI_ERR_ACCESS: invalid access mode",
    21: "MPI_ERR_AMODE: invalid amode argument",
    22: "MPI_ERR_ASSERT: invalid assert argument",
    23: "MPI_ERR_BAD_FILE: bad file",
    24: "MPI_ERR_BASE: invalid base",
    25: "MPI_ERR_CONVERSION: error in data conversion",
    26: "MPI_ERR_DISP: invalid displacement",
    27: "MPI_ERR_DUP_DATAREP: error duplicating data representation",
    28: "MPI_ERR_FILE_EXISTS: file exists already",
    29: "MPI_ERR_FILE_IN_USE: file already in use",
    30: "MPI_ERR_FILE: invalid file",
    31: "MPI_ERR_INFO_KEY: invalid key argument for info object",
    32: "MPI_ERR_INFO_NOKEY: unknown key for given info object",
    33: "MPI_ERR_INFO_VALUE: invalid value argument for info object",
    34: "MPI_ERR_INFO: invalid info object",
    35: "MPI_ERR_IO: input/output error",
    36: "MPI_ERR_KEYVAL: invalid key value",
    37: "MPI_ERR_LOCKTYPE: invalid lock",
    38: "MPI_ERR_NAME: invalid name argument",
    39: "MPI_ERR_NO_MEM: out of memory",
    40: "MPI_ERR_NOT_SAME: objects are not identical",
    41: "MPI_ERR_NO_SPACE: no space left on device",
    42: "MPI_ERR_NO_SUCH_FILE: no such file or directory",
    43: "MPI_ERR_PORT: invalid port",
    44: "MPI_ERR_QUOTA: out of quota",
    45: "MPI_ERR_READ_ONLY: file is read only",
    46: "MPI_ERR_RMA_CONFLICT: rma conflict during operation",
    47: "MPI_ERR_RMA_SYNC: error executing rma sync",
    48: "MPI_ERR_SERVICE: unknown service name",
    49: "MPI_ERR_SIZE: invalid size",
    50: "MPI_ERR_SPAWN: could not spawn processes",
    51: "MPI_ERR_UNSUPPORTED_DATAREP: data representation not supported",
    52: "MPI_ERR_UNSUPPORTED_OPERATION: operation not supported",
    53: "MPI_ERR_WIN: invalid window",
    68: "MPI_ERR_RMA_RANGE: invalid RMA address range",
    69: "MPI_ERR_RMA_ATTACH: Could not attach RMA segment",
    70: "MPI_ERR_RMA_FLAVOR: Invalid type of window",
    71: "MPI_ERR_RMA_SHARED: Memory cannot be shared",
    74: "MPI_ERR_PROC_ABORTED: operation failed because a remote peer has aborted",
    75: "MPI_ERR_PROC_FAILED: Process Failure",
    76: "MPI_ERR_PROC_FAILED_PENDING: Process Failure during an MPI_ANY_SOURCE non-blocking receive, "
    "request is still active",
    77: "MPI_ERR_REVOKED: Communication Object Revoked",
    78: "MPI_ERR_SESSION: Invalid session handle",
    79: "MPI_ERR_VALUE_TOO_LARGE: Value is too large to store",
    80: "MPI_ERR_ABI: invalid application binary interface",
    81: "MPI_ERR_ERRHANDLER: invalid error handler",
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
    **{
        f"COMBINER_{name}": number
        for name, number in (
            *(("NAMED", 0), ("VALUE_INDEX", 0), ("DUP", 1), ("CONTIGUOUS", 2), ("VECTOR", 3), ("HVECTOR", 5)),
            *(("INDEXED", 6), ("HINDEXED", 8), ("INDEXED_BLOCK", 9), ("HINDEXED_BLOCK", 18), ("STRUCT", 11)),
            *(("SUBARRAY", 12), ("DARRAY", 13), ("F90_REAL", 14), ("F90_COMPLEX", 15), ("F90_INTEGER", 16)),
            ("RESIZED", 17),
        )
    },
    "ORDER_C": 0,
    "ORDER_F": 1,
    "ORDER_FORTRAN": 1,
    "DISTRIBUTE_BLOCK": 0,
    "DISTRIBUTE_CYCLIC": 1,
    "DISTRIBUTE_NONE": 2,
    "DISTRIBUTE_DFLT_DARG": -1,
    "TYPECLASS_INTEGER": 1,
    "TYPECLASS_REAL": 2,
    "TYPECLASS_COMPLEX": 3,
    "TYPECLASS_LOGICAL": 4,
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
    "MAX_PSET_NAME_LEN": 512,
    "MAX_STRINGTAG_LEN": 1024,
    # windows
    "WIN_BASE": 7,
    "WIN_SIZE": 8,
    "WIN_DISP_UNIT": 9,
    "WIN_CREATE_FLAVOR": 10,
    "WIN_FLAVOR": 10,
    "WIN_MODEL": 11,
    "WIN_FLAVOR_CREATE": 1,
    "WIN_FLAVOR_ALLOCATE": 2,
    "WIN_FLAVOR_DYNAMIC": 3,
    "WIN_FLAVOR_SHARED": 4,
    "WIN_UNIFIED": 0,
    "WIN_SEPARATE": 1,
    "LOCK_EXCLUSIVE": 1,
    "LOCK_SHARED": 2,
    "MODE_NOCHECK": 1,
    "MODE_NOPRECEDE": 2,
    "MODE_NOPUT": 4,
    "MODE_NOSTORE": 8,
    "MODE_NOSUCCEED": 16,
    # files
    "MODE_CREATE": 1,
    "MODE_RDONLY": 2,
    "MODE_WRONLY": 4,
    "MODE_RDWR": 8,
    "MODE_DELETE_ON_CLOSE": 16,
    "MODE_UNIQUE_OPEN": 32,
    "MODE_EXCL": 64,
    "MODE_APPEND": 128,
    "MODE_SEQUENTIAL": 256,
    "SEEK_SET": 600,
    "SEEK_CUR": 602,
    "SEEK_END": 604,
    "DISPLACEMENT_CURRENT": -54278278,
    "DISP_CUR": -54278278,
    **ERROR_CLASSES,
}

#: every integer constant of the simulated module; the numbers are Open MPI's
CONSTANTS: dict[str, int] = {name: Constant(number, name) for name, number in _NUMBERS.items()}


def attribute_values(ranks: int, last_code: int) -> dict[int, int]:
    """Return the predefined attributes of a communicator in a run of this many ranks, by key."""
    values = {
        "TAG_UB": TAG_UB,
        "IO": ANY_SOURCE,  # every rank can read and write files
        "WTIME_IS_GLOBAL": 1,  # there is one simulated clock
        "APPNUM": 0,
        "LASTUSEDCODE": last_code,
        "UNIVERSE_SIZE": ranks,
    }
    return {_NUMBERS[name]: value for name, value in values.items()}
