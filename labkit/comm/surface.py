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

Collectives come from `labkit.schedule.problem.PROBLEMS`: a new one there has all its methods at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from labkit.schedule.problem import PROBLEMS

__all__ = [
    "ANSWERS", "FILES", "FILE_CALLS", "MAKERS", "METHODS", "NAMED", "REQUESTS", "WINDOW_CALLS", "Method",
    "Parameter", "add_methods", "made", "over",
]  # fmt: skip


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
        """The parameters as they are passed on."""
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
        "Send a block to every rank and receive one from every rank, each of a size and datatype of its own: "
        "``[buffer, counts, displacements, datatypes]``, displacements in bytes."
    )
    yield from _forms("Alltoallw", "collective", ("sendbuf", "recvbuf"), doc, "alltoallv")
    for name, doc in (
        ("allgather", "Send a buffer to every neighbour, and receive a block from each."),
        ("allgatherv", "Send a buffer to every neighbour, and receive a block of any size from each."),
        ("alltoall", "Send a block to each neighbour, and receive one from each."),
        ("alltoallv", "Send a block of any size to each neighbour, and receive one from each."),
        ("alltoallw", "Exchange blocks of sizes and datatypes of their own with the neighbours."),
    ):
        yield from _forms(f"Neighbor_{name}", "neighbor", ("sendbuf", "recvbuf"), doc)
    reduced = ("sendobj", "op")
    for name, parameters, doc in (
        ("barrier", (), "Wait until every rank is here."),
        ("bcast", ("obj", "root"), "Send an object from the root to everybody."),
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
        ("allgather", "Send an object to every neighbour; what they sent."),
        ("alltoall", "Send the i-th object to the i-th neighbour; what they sent."),
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
    "Wait": "", "Waitall": "", "Waitany": "[0]", "Waitsome": "[0]",
    "Test": "[0]", "Testall": "[0]", "Testany": "[:2]", "Testsome": "[0]",
}  # fmt: skip


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
    space: Mapping[str, Any],
    wrap: Callable[[Method, Callable[..., Any]], Any] = lambda method, function: function,
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
