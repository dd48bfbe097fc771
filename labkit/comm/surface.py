"""mpi4py's surface: one table of the methods of communicators and requests, and what makes methods of it.

A row (`Method`) says a method's name, kind, parameters, form (blocking, nonblocking, persistent), whether it
moves buffers or objects, and the collective that it is. Whoever stands where a communicator stands asks the
table for the rows that it wants and gives an expression a row; `add_methods` makes real methods of them, with
mpi4py's signature, a name and a docstring::

    rows = [row for row in METHODS if row.kind == "collective" and row.form == "blocking"]
    add_methods(Recorded, rows, lambda row: "note(self, original, {args})", {"note": note})

The expression sees ``self``, the parameters (``{args}`` stands for all of them, by position), ``method`` (the
row) and the names of `space`, which has the values of the defaults ``ANY_SOURCE``, ``ANY_TAG`` and ``SUM``
where a row needs them. One that is None leaves a method out. A method made so is plain Python: no unpacked
arguments, so that a rank that waits inside it keeps little stack.

Collectives come from `labkit.schedule.problem.PROBLEMS`: a new one there gets all its methods automatically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from labkit.schedule.problem import PROBLEMS

__all__ = [
    "ANSWERS",
    "FILES",
    "FILE_CALLS",
    "MAKERS",
    "METHODS",
    "NAMED",
    "REQUESTS",
    "WINDOW_CALLS",
    "Method",
    "Parameter",
    "add_methods",
    "made",
    "over",
]


class Parameter(NamedTuple):
    """One parameter of a method.

    Attributes
    ----------
    name : str
        As in mpi4py.
    role : str
        "read", "write", "object", "peer", "tag", "root", "op", "counts", "status", "info", "requests",
        "offset".
    default : str
        An expression; empty: there is none.
    """

    name: str
    role: str
    default: str = ""


class Method(NamedTuple):
    """One row of the table.

    Attributes
    ----------
    name : str
    kind : str
        "send", "receive", "exchange", "probe", "collective", "neighbor"; of requests how many are waited for:
        "one", "all", "any", "some".
    form : str
        "blocking", "nonblocking" (a test, of requests), "persistent".
    is_buffer : bool
        Upper-case: moves buffers, not objects.
    parameters : tuple of Parameter
    doc : str
    base : str
        The blocking method of the same operation.
    problem : str
        The collective whose schedule it runs; empty for others.
    """

    name: str
    kind: str
    form: str
    is_buffer: bool
    parameters: tuple[Parameter, ...]
    doc: str
    base: str
    problem: str = ""

    @property
    def signature(self) -> str:
        """The parameters as they stand in a definition."""
        return ", ".join(p.name + (f"={p.default}" if p.default else "") for p in self.parameters)

    @property
    def arguments(self) -> str:
        """The parameters as passed on."""
        return ", ".join(p.name for p in self.parameters)


_PARAMETERS = {
    name: Parameter(name, role, default)
    for name, role, default in (
        *(("buf", "write", ""), ("sendbuf", "read", ""), ("recvbuf", "write", "")),
        *(("obj", "object", ""), ("sendobj", "object", ""), ("root", "root", "0"), ("op", "op", "SUM")),
        *(("recvcounts", "counts", "None"), ("info", "info", "None"), ("status", "status", "None")),
        *(("dest", "peer", ""), ("source", "peer", "ANY_SOURCE"), ("tag", "tag", "0")),
        *(("sendtag", "tag", "0"), ("recvtag", "tag", "ANY_TAG"), ("statuses", "status", "None")),
        ("requests", "requests", ""),
    )
}
#: a parameter that is written otherwise in some methods
_ANY_TAG = Parameter("tag", "tag", "ANY_TAG")
_NO_BUFFER = Parameter("buf", "write", "None")
_NO_RECVBUF = Parameter("recvbuf", "write", "None")
_READ = Parameter("buf", "read")


def _row(
    name: str,
    kind: str,
    form: str,
    parameters: Iterable[str | Parameter],
    doc: str,
    base: str,
    problem: str = "",
) -> Method:
    known = tuple(_PARAMETERS[p] if isinstance(p, str) else p for p in parameters)
    return Method(name, kind, form, name[0].isupper(), known, doc, base, problem)


def _forms(base: str, kind: str, parameters: Iterable[str], doc: str, problem: str = "") -> Iterator[Method]:
    """The three forms of a collective on buffers."""
    rest, later = tuple(parameters), doc[:1].lower() + doc[1:]
    yield _row(base, kind, "blocking", rest, doc, base, problem)
    yield _row(
        "I" + base[0].lower() + base[1:], kind, "nonblocking", rest, f"Begin to {later}", base, problem
    )
    init = (*rest, "info")
    yield _row(f"{base}_init", kind, "persistent", init, f"Make a request to {later}", base, problem)


def _sends() -> Iterator[Method]:
    for mode, how in (
        ("", ""),
        ("s", " in synchronous mode"),
        ("b", " in buffered mode"),
        ("r", " in ready mode"),
    ):
        low = f"{mode}send"
        base = low.capitalize()
        yield _row(base, "send", "blocking", (_READ, "dest", "tag"), f"Send a buffer{how}.", base)
        yield _row(
            f"I{low}", "send", "nonblocking", (_READ, "dest", "tag"), f"Begin to send a buffer{how}.", base
        )
        doc = f"Make a request that sends a buffer{how} whenever it is started."
        yield _row(f"{base}_init", "send", "persistent", (_READ, "dest", "tag"), doc, base)
        if mode != "r":
            yield _row(low, "send", "blocking", ("obj", "dest", "tag"), f"Send an object{how}.", low)
            doc = f"Begin to send an object{how}."
            yield _row(f"i{low}", "send", "nonblocking", ("obj", "dest", "tag"), doc, low)


def _receives() -> Iterator[Method]:
    ends = ("source", _ANY_TAG)
    yield _row("Recv", "receive", "blocking", ("buf", *ends, "status"), "Receive into a buffer.", "Recv")
    yield _row("Irecv", "receive", "nonblocking", ("buf", *ends), "Begin to receive into a buffer.", "Recv")
    doc = "Make a request that receives into a buffer whenever it is started."
    yield _row("Recv_init", "receive", "persistent", ("buf", *ends), doc, "Recv")
    yield _row("recv", "receive", "blocking", (_NO_BUFFER, *ends, "status"), "Receive an object.", "recv")
    yield _row("irecv", "receive", "nonblocking", (_NO_BUFFER, *ends), "Begin to receive an object.", "recv")
    both = ("dest", "sendtag", _NO_RECVBUF, "source", "recvtag")
    doc = "Send a buffer and receive into another."
    yield _row("Sendrecv", "exchange", "blocking", ("sendbuf", *both, "status"), doc, "Sendrecv")
    doc = "Begin to send a buffer and to receive into another."
    yield _row("Isendrecv", "exchange", "nonblocking", ("sendbuf", *both), doc, "Sendrecv")
    same, base = ("buf", "dest", "sendtag", "source", "recvtag"), "Sendrecv_replace"
    yield _row(base, "exchange", "blocking", (*same, "status"), "Send a buffer and receive into it.", base)
    doc = "Begin to send a buffer and to receive into it."
    yield _row("Isendrecv_replace", "exchange", "nonblocking", same, doc, base)
    doc = "Send an object and receive one."
    yield _row("sendrecv", "exchange", "blocking", ("sendobj", *both, "status"), doc, "sendrecv")
    for found, doc in (
        ("", "{} a message can be received."),
        ("m", "{} a message can be received; take it."),
    ):
        for name in (f"{found}probe", f"{found}probe".capitalize()):
            form = "i" + name if name.islower() else "I" + name.lower()
            waits, looks = doc.format("Wait until"), doc.format("Whether")
            yield _row(name, "probe", "blocking", (*ends, "status"), waits, name)
            yield _row(form, "probe", "nonblocking", (*ends, "status"), looks, name)


def _collectives() -> Iterator[Method]:
    for problem in PROBLEMS.values():
        yield from _forms(problem.method, "collective", problem.arguments, problem.doc, problem.name)
    doc = (
        "Send a block to every rank and receive one from every rank, each with its own size and datatype: "
        "``[buffer, counts, displacements, datatypes]``, displacements in bytes."
    )
    yield from _forms("Alltoallw", "collective", ("sendbuf", "recvbuf"), doc, "alltoallv")
    for name, doc in (
        ("allgather", "Send a buffer to every neighbor, and receive a block from each."),
        ("allgatherv", "Send a buffer to every neighbor, and receive a block of any size from each."),
        ("alltoall", "Send a block to each neighbor, and receive one from each."),
        ("alltoallv", "Send a block of any size to each neighbor, and receive one from each."),
        ("alltoallw", "Exchange blocks with the neighbors, each with its own size and datatype."),
    ):
        yield from _forms(f"Neighbor_{name}", "neighbor", ("sendbuf", "recvbuf"), doc)
    reduced = ("sendobj", "op")
    for name, parameters, doc in (
        ("barrier", (), "Wait until every rank is here."),
        ("bcast", ("obj", "root"), "Send an object from the root to all ranks."),
        ("gather", ("sendobj", "root"), "Collect one object of every rank at the root, in rank order."),
        ("scatter", ("sendobj", "root"), "Send the i-th of the root's objects to rank i."),
        ("allgather", ("sendobj",), "Collect one object of every rank at every rank, in rank order."),
        ("alltoall", ("sendobj",), "Send the i-th object to rank i; the objects received, in rank order."),
        ("reduce", (*reduced, "root"), "Combine the objects in rank order; the result at the root."),
        ("allreduce", reduced, "Combine the objects in rank order; the result at every rank."),
        ("scan", reduced, "Combine the objects of the ranks up to and including this one."),
        ("exscan", reduced, "Combine the objects of the ranks before this one; None at rank 0."),
    ):
        yield _row(name, "collective", "blocking", parameters, doc, name)
    for name, doc in (
        ("allgather", "Send an object to every neighbor; what they sent."),
        ("alltoall", "Send the i-th object to the i-th neighbor; what they sent."),
    ):
        yield _row(f"neighbor_{name}", "neighbor", "blocking", ("sendobj",), doc, f"neighbor_{name}")


#: methods of communicators that move data
METHODS: tuple[Method, ...] = (*_sends(), *_receives(), *_collectives())
NAMED: dict[str, Method] = {method.name: method for method in METHODS}

#: methods that make communicators: name -> whether all ranks of the communicator call them
MAKERS: dict[str, bool] = {
    **dict.fromkeys(("Dup", "Dup_with_info", "Clone", "Create", "Split", "Split_type"), True),
    **dict.fromkeys(("Create_cart", "Create_graph", "Create_dist_graph"), True),
    **dict.fromkeys(("Create_dist_graph_adjacent", "Sub", "Merge"), True),
    **dict.fromkeys(("Create_group", "Create_intercomm"), False),
}


def _requests() -> Iterator[Method]:
    for verb, form in (("Wait", "blocking"), ("Test", "nonblocking")):
        for many, parameters, doc in (
            ("", ("status",), "it is complete"),
            ("all", ("requests", "statuses"), "all are complete"),
            ("any", ("requests", "status"), "one is complete"),
            ("some", ("requests", "statuses"), "at least one is complete"),
        ):
            for name in (f"{verb}{many}", f"{verb}{many}".lower()):
                text = f"{'Wait until' if verb == 'Wait' else 'Whether'} {doc}."
                yield _row(name, many or "one", form, parameters, text, f"Wait{many}")


def _file_calls() -> Iterator[Method]:
    """Reads and writes: at an offset, at the rank's own pointer, at the shared one, in rank order at that."""
    offset = Parameter("offset", "offset")
    for verb, buf in (("Read", Parameter("buf", "write")), ("Write", _READ)):
        for suffix, kind, whence in (
            ("_at", "at", "at an offset"),
            ("", "own", "at this rank's pointer"),
            ("_shared", "shared", "at the shared pointer"),
            ("_ordered", "ordered", "at the shared pointer, in rank order"),
        ):
            first = (offset, buf) if kind == "at" else (buf,)
            alls = ("",) if kind in ("shared", "ordered") else ("", "_all")
            for every in alls:
                base = f"{verb}{suffix}{every}"
                doc = f"{verb} {whence}" + (", all ranks together." if every or kind == "ordered" else ".")
                yield _row(base, kind, "blocking", (*first, "status"), doc, base)
                later = f"Begin to {doc[:1].lower()}{doc[1:]}"
                if kind != "ordered":
                    yield _row(f"I{base[:1].lower()}{base[1:]}", kind, "nonblocking", first, later, base)
                if every or kind == "ordered":
                    yield _row(f"{base}_begin", kind, "begin", first, later, base)
                    doc = f"End what `{base}_begin` began."
                    yield _row(f"{base}_end", kind, "end", (buf, "status"), doc, base)


#: reads and writes of files: kind "at", "own", "shared" or "ordered", form also "begin" and "end"
FILES: tuple[Method, ...] = tuple(_file_calls())

#: further methods of files and the methods of windows that take part in communication
FILE_CALLS: tuple[str, ...] = (
    *(row.name for row in FILES),
    *("Open", "Close", "Delete", "Set_size", "Preallocate", "Set_view", "Sync", "Seek_shared"),
)
WINDOW_CALLS: tuple[str, ...] = (
    *("Create", "Allocate", "Allocate_shared", "Create_dynamic", "Free", "Put", "Get", "Rput", "Rget"),
    *("Accumulate", "Raccumulate", "Get_accumulate", "Rget_accumulate", "Fetch_and_op", "Compare_and_swap"),
    *("Fence", "Post", "Start", "Complete", "Wait", "Test", "Lock", "Unlock", "Lock_all", "Unlock_all"),
    *("Flush", "Flush_all", "Flush_local", "Flush_local_all", "Sync"),
)

#: waits and tests of requests; those on several of them are methods of the class
REQUESTS: tuple[Method, ...] = tuple(_requests())

#: what an upper-case wait or test returns of its lower-case twin's answer: as an index, or just True
ANSWERS = {
    "Wait": "",
    "Waitall": "",
    "Waitany": "[0]",
    "Waitsome": "[0]",
    "Test": "[0]",
    "Testall": "[0]",
    "Testany": "[:2]",
    "Testsome": "[0]",
}


def made(method: Method, expression: str, space: Mapping[str, Any], owner: str = "") -> Callable[..., Any]:
    """Return a function with a row's signature that evaluates an expression (see the module)."""
    first = "cls" if "requests" in method.arguments else "self"
    head = ", ".join(part for part in (first, method.signature) if part)
    source = f"def {method.name}({head}):\n    return {expression.replace('{args}', method.arguments)}\n"
    names = {**space, "method": method}
    exec(compile(source, __file__, "exec"), names)
    function: Callable[..., Any] = names[method.name]
    function.__doc__ = method.doc
    function.__module__ = space.get("__name__", __name__)
    function.__qualname__ = f"{owner}.{method.name}" if owner else method.name
    return function


def add_methods(
    cls: type,
    methods: Iterable[Method],
    expression: Callable[[Method], str | None],
    space: Mapping[str, object],
    wrap: Callable[[Method, Callable[..., object]], object] = lambda method, function: function,
) -> None:
    """Give a class the methods of some rows; those that it has written itself stay."""
    for method in methods:
        text = None if method.name in vars(cls) else expression(method)
        if text is not None:
            setattr(cls, method.name, wrap(method, made(method, text, space, cls.__name__)))


def over(method: Method, answer: Any) -> tuple[Any] | None:
    """Return what a wait returns, once the answer of the test of its kind says that it is over; else None."""
    if method.kind == "some":
        indices = answer if method.is_buffer else answer[0]
        return (answer,) if indices is None or indices else None
    if method.kind == "any":
        index, flag, *things = answer
        return ((index, *things) if things else index,) if flag else None
    flag, *things = (answer,) if method.is_buffer else answer
    return (things[0] if things else True,) if flag else None


# Every public name of mpi4py.MPI 4.1: what is not simulated is refused by name; a typo is no name at all.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: names of the module
MODULE = _words(
    """
    AINT ANY_SOURCE ANY_TAG APPNUM Add_error_class Add_error_code Add_error_string Aint_add Aint_diff
    Alloc_mem Attach_buffer BAND BFLOAT16_T BOOL BOR BOTTOM BSEND_OVERHEAD BUFFER_AUTOMATIC BXOR BYTE
    BottomType BufferAutomaticType CART CHAR CHARACTER COMBINER_CONTIGUOUS COMBINER_DARRAY COMBINER_DUP
    COMBINER_F90_COMPLEX COMBINER_F90_INTEGER COMBINER_F90_REAL COMBINER_HINDEXED COMBINER_HINDEXED_BLOCK
    COMBINER_HVECTOR COMBINER_INDEXED COMBINER_INDEXED_BLOCK COMBINER_NAMED COMBINER_RESIZED COMBINER_STRUCT
    COMBINER_SUBARRAY COMBINER_VALUE_INDEX COMBINER_VECTOR COMM_NULL COMM_SELF COMM_TYPE_HW_GUIDED
    COMM_TYPE_HW_UNGUIDED COMM_TYPE_RESOURCE_GUIDED COMM_TYPE_SHARED COMM_WORLD COMPLEX COMPLEX16 COMPLEX32
    COMPLEX4 COMPLEX8 CONGRUENT COUNT CXX_BOOL CXX_DOUBLE_COMPLEX CXX_FLOAT_COMPLEX CXX_LONG_DOUBLE_COMPLEX
    C_BOOL C_COMPLEX C_DOUBLE_COMPLEX C_FLOAT_COMPLEX C_LONG_DOUBLE_COMPLEX Cartcomm Close_port Comm
    Compute_dims DATATYPE_NULL DISPLACEMENT_CURRENT DISP_CUR DISTRIBUTE_BLOCK DISTRIBUTE_CYCLIC
    DISTRIBUTE_DFLT_DARG DISTRIBUTE_NONE DIST_GRAPH DOUBLE DOUBLE_COMPLEX DOUBLE_INT DOUBLE_PRECISION
    Datatype Detach_buffer Distgraphcomm ERRHANDLER_NULL ERRORS_ABORT ERRORS_ARE_FATAL ERRORS_RETURN ERR_ABI
    ERR_ACCESS ERR_AMODE ERR_ARG ERR_ASSERT ERR_BAD_FILE ERR_BASE ERR_BUFFER ERR_COMM ERR_CONVERSION
    ERR_COUNT ERR_DIMS ERR_DISP ERR_DUP_DATAREP ERR_ERRHANDLER ERR_FILE ERR_FILE_EXISTS ERR_FILE_IN_USE
    ERR_GROUP ERR_INFO ERR_INFO_KEY ERR_INFO_NOKEY ERR_INFO_VALUE ERR_INTERN ERR_IN_STATUS ERR_IO ERR_KEYVAL
    ERR_LASTCODE ERR_LOCKTYPE ERR_NAME ERR_NOT_SAME ERR_NO_MEM ERR_NO_SPACE ERR_NO_SUCH_FILE ERR_OP
    ERR_OTHER ERR_PENDING ERR_PORT ERR_PROC_ABORTED ERR_PROC_FAILED ERR_PROC_FAILED_PENDING ERR_QUOTA
    ERR_RANK ERR_READ_ONLY ERR_REQUEST ERR_REVOKED ERR_RMA_ATTACH ERR_RMA_CONFLICT ERR_RMA_FLAVOR
    ERR_RMA_RANGE ERR_RMA_SHARED ERR_RMA_SYNC ERR_ROOT ERR_SERVICE ERR_SESSION ERR_SIZE ERR_SPAWN ERR_TAG
    ERR_TOPOLOGY ERR_TRUNCATE ERR_TYPE ERR_UNKNOWN ERR_UNSUPPORTED_DATAREP ERR_UNSUPPORTED_OPERATION
    ERR_VALUE_TOO_LARGE ERR_WIN Errhandler Exception FILE_NULL FLOAT FLOAT16_T FLOAT32_T FLOAT64_T FLOAT_INT
    F_BOOL F_COMPLEX F_DOUBLE F_DOUBLE_COMPLEX F_ERROR F_FLOAT F_FLOAT_COMPLEX F_INT F_SOURCE F_STATUS_SIZE
    F_TAG File Finalize Flush_buffer Free_mem GRAPH GROUP_EMPTY GROUP_NULL Get_abi_fortran_info Get_abi_info
    Get_abi_version Get_address Get_error_class Get_error_string Get_hw_resource_info Get_library_version
    Get_processor_name Get_version Graphcomm Grequest Group IDENT INFO_ENV INFO_NULL INT INT16_T INT32_T
    INT64_T INT8_T INTEGER INTEGER1 INTEGER16 INTEGER2 INTEGER4 INTEGER8 INT_INT IN_PLACE IO Iflush_buffer
    InPlaceType Info Init Init_thread Intercomm Intracomm Is_finalized Is_initialized Is_thread_main
    KEYVAL_INVALID LAND LASTUSEDCODE LOCK_EXCLUSIVE LOCK_SHARED LOGICAL LOGICAL1 LOGICAL16 LOGICAL2 LOGICAL4
    LOGICAL8 LONG LONG_DOUBLE LONG_DOUBLE_INT LONG_INT LONG_LONG LOR LXOR Lookup_name MAX MAXLOC
    MAX_DATAREP_STRING MAX_ERROR_STRING MAX_INFO_KEY MAX_INFO_VAL MAX_LIBRARY_VERSION_STRING MAX_OBJECT_NAME
    MAX_PORT_NAME MAX_PROCESSOR_NAME MAX_PSET_NAME_LEN MAX_STRINGTAG_LEN MESSAGE_NO_PROC MESSAGE_NULL MIN
    MINLOC MODE_APPEND MODE_CREATE MODE_DELETE_ON_CLOSE MODE_EXCL MODE_NOCHECK MODE_NOPRECEDE MODE_NOPUT
    MODE_NOSTORE MODE_NOSUCCEED MODE_RDONLY MODE_RDWR MODE_SEQUENTIAL MODE_UNIQUE_OPEN MODE_WRONLY Message
    NO_OP OFFSET OP_NULL ORDER_C ORDER_F ORDER_FORTRAN Op Open_port PACKED PROC_NULL PROD Pcontrol Pickle
    Prequest Publish_name Query_thread REAL REAL16 REAL2 REAL4 REAL8 REPLACE REQUEST_NULL ROOT
    Register_datarep Remove_error_class Remove_error_code Remove_error_string Request SEEK_CUR SEEK_END
    SEEK_SET SESSION_NULL SHORT SHORT_INT SIGNED_CHAR SIGNED_INT SIGNED_LONG SIGNED_LONG_LONG SIGNED_SHORT
    SIMILAR SINT16_T SINT32_T SINT64_T SINT8_T SUBVERSION SUCCESS SUM Session Status TAG_UB THREAD_FUNNELED
    THREAD_MULTIPLE THREAD_SERIALIZED THREAD_SINGLE TWOINT TYPECLASS_COMPLEX TYPECLASS_INTEGER
    TYPECLASS_LOGICAL TYPECLASS_REAL Topocomm UINT16_T UINT32_T UINT64_T UINT8_T UNDEFINED UNEQUAL
    UNIVERSE_SIZE UNSIGNED UNSIGNED_CHAR UNSIGNED_INT UNSIGNED_LONG UNSIGNED_LONG_LONG UNSIGNED_SHORT
    UNWEIGHTED Unpublish_name VERSION WCHAR WEIGHTS_EMPTY WIN_BASE WIN_CREATE_FLAVOR WIN_DISP_UNIT
    WIN_FLAVOR WIN_FLAVOR_ALLOCATE WIN_FLAVOR_CREATE WIN_FLAVOR_DYNAMIC WIN_FLAVOR_SHARED WIN_MODEL WIN_NULL
    WIN_SEPARATE WIN_SIZE WIN_UNIFIED WTIME_IS_GLOBAL Win Wtick Wtime buffer get_vendor memory pickle
    """
)

_NEIGHBOR = frozenset(row.name for row in METHODS if row.kind == "neighbor")
_METHODS = frozenset((*(row.name for row in METHODS), *MAKERS)) - _NEIGHBOR - {"Sub"}
_REQUESTS = frozenset(row.name for row in REQUESTS)

#: attributes of communicators without a topology
COMM = _METHODS | _words(
    """
    Abort Accept Ack_failed Agree Attach_buffer Call_errhandler Cart_map Compare Connect Create_errhandler
    Create_from_group Create_from_groups Create_keyval Delete_attr Detach_buffer Disconnect Flush_buffer
    Free Free_keyval Get_attr Get_errhandler Get_failed Get_group Get_info Get_name Get_parent Get_rank
    Get_remote_group Get_remote_size Get_size Get_topology Graph_map Iagree Idup Idup_with_info
    Iflush_buffer Is_inter Is_intra Is_revoked Ishrink Join Precv_init Psend_init Revoke Set_attr
    Set_errhandler Set_info Set_name Shrink Spawn Spawn_multiple f2py free fromhandle fromint group handle
    info is_inter is_intra is_topo name py2f rank remote_group remote_size size toint topology
    """
)

#: further attributes of communicators with a topology
TOPOLOGY = _NEIGHBOR | _words(
    """
    Get_cart_rank Get_coords Get_dim Get_dims Get_dist_neighbors Get_dist_neighbors_count Get_neighbors
    Get_neighbors_count Get_topo Shift Sub coords degrees dim dims edges indegree index inedges inoutedges
    ndim nedges neighbors nneighbors nnodes outdegree outedges periods topo
    """
)

#: attributes of requests of any kind
REQUEST = _REQUESTS | _words(
    """
    Cancel Complete Free Get_status Get_status_all Get_status_any Get_status_some Parrived Pready
    Pready_list Pready_range Start Startall cancel complete f2py free fromhandle fromint get_status
    get_status_all get_status_any get_status_some handle py2f toint
    """
)

#: attributes of a status
STATUS = _words(
    """
    Get_count Get_elements Get_error Get_source Get_tag Is_cancelled Set_cancelled Set_elements Set_error
    Set_source Set_tag cancelled count error f2py py2f source tag tomemory
    """
)

#: attributes of a datatype
DATATYPE = _words(
    """
    Commit Create_contiguous Create_darray Create_dup Create_f90_complex Create_f90_integer Create_f90_real
    Create_hindexed Create_hindexed_block Create_hvector Create_indexed Create_indexed_block Create_keyval
    Create_resized Create_struct Create_subarray Create_vector Delete_attr Dup Free Free_keyval Get_attr
    Get_contents Get_envelope Get_extent Get_name Get_size Get_true_extent Get_value_index Match_size Pack
    Pack_external Pack_external_size Pack_size Resized Set_attr Set_name Unpack Unpack_external combiner
    contents decode envelope extent f2py free fromcode fromhandle fromint handle is_named is_predefined lb
    name py2f size tocode toint true_extent true_lb true_ub typechar typestr ub
    """
)

#: attributes of an operator
OP = _words(
    """
    Create Free Is_commutative Reduce_local f2py free fromhandle fromint handle is_commutative is_predefined
    py2f toint
    """
)

#: attributes of a session
SESSION = _words(
    """
    Attach_buffer Call_errhandler Create_errhandler Create_group Detach_buffer Finalize Flush_buffer
    Get_errhandler Get_info Get_nth_pset Get_num_psets Get_pset_info Iflush_buffer Init Set_errhandler f2py
    free fromhandle fromint handle py2f toint
    """
)

#: attributes of a group
GROUP = _words(
    """
    Compare Create_from_session_pset Difference Dup Excl Free Get_rank Get_size Incl Intersect Intersection
    Range_excl Range_incl Translate_ranks Union f2py free fromhandle fromint handle py2f rank size toint
    """
)

#: attributes of an info object
INFO = _words(
    """
    Create Create_env Delete Dup Free Get Get_nkeys Get_nthkey Set clear copy f2py free fromhandle fromint
    get handle items keys pop popitem py2f toint update values
    """
)

#: attributes of a window
WIN = _words(
    """
    Accumulate Allocate Allocate_shared Attach Call_errhandler Compare_and_swap Complete Create Create_dynamic
    Create_errhandler Create_keyval Delete_attr Detach Fence Fetch_and_op Flush Flush_all Flush_local
    Flush_local_all Free Free_keyval Get Get_accumulate Get_attr Get_errhandler Get_group Get_info Get_name
    Lock Lock_all Post Put Raccumulate Rget Rget_accumulate Rput Set_attr Set_errhandler Set_info Set_name
    Shared_query Start Sync Test Unlock Unlock_all Wait attrs f2py flavor free fromhandle fromint group
    group_rank group_size handle info model name py2f toint tomemory
    """
)

#: attributes of a file
FILE = _words(
    """
    Call_errhandler Close Create_errhandler Delete Get_amode Get_atomicity Get_byte_offset Get_errhandler
    Get_group Get_info Get_position Get_position_shared Get_size Get_type_extent Get_view Iread Iread_all
    Iread_at Iread_at_all Iread_shared Iwrite Iwrite_all Iwrite_at Iwrite_at_all Iwrite_shared Open
    Preallocate Read Read_all Read_all_begin Read_all_end Read_at Read_at_all Read_at_all_begin
    Read_at_all_end Read_ordered Read_ordered_begin Read_ordered_end Read_shared Seek Seek_shared
    Set_atomicity Set_errhandler Set_info Set_size Set_view Sync Write Write_all Write_all_begin
    Write_all_end Write_at Write_at_all Write_at_all_begin Write_at_all_end Write_ordered
    Write_ordered_begin Write_ordered_end Write_shared amode atomicity f2py free fromhandle fromint group
    group_rank group_size handle info py2f size toint
    """
)
