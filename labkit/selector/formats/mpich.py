"""MPICH's selection trees: JSON whose keys are conditions, nested, and whose leaves are functions.

Of the keys of a table the first one counts that holds, and what is below it decides alone; so a table ends
with ``any``, or says both yes and no. MPICH aborts where it finds nothing for a collective, hence a file has
a branch for each: those that were not tuned, and communicators between two groups, get functions that take
every call. MPICH's own file (``maint/tuning/coll/mpir/generic.json``) chooses better for these: put the tuned
branch into a copy of it.

Reading takes the branch of a communicator within one group, of one thread, whose ranks are one on each host,
with its own send buffer and at least as many elements as ranks: which labkit's calls do not pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from labkit import registry
from labkit.errors import DataError, ScheduleError, nearest
from labkit.selector.formats.bands import Band
from labkit.selector.libraries import names_table, untuned
from labkit.selector.rules import Rules

__all__ = ["read", "write"]

#: how MPICH measures the message; scans and barriers it does not
_MEASURES = dict.fromkeys(("allreduce", "alltoall", "bcast", "reduce"), "avg_msg_size") | dict.fromkeys(
    ("allgather", "allgatherv", "gather", "reduce_scatter", "reduce_scatter_block", "scatter"),
    "total_msg_size",
)
#: functions that need as many elements as there are ranks, and a built-in operator
_WHOLE = ("reduce_scatter_allgather", "reduce_scatter_gather")
#: functions that are for powers of two where labkit's algorithm is not
_POWERS_OF_TWO = ("_noncommutative",)
#: bounds are C's int
_MOST = 2**31 - 1
_BLOCKING = (
    "allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "alltoallw", "barrier", "bcast",
    "exscan", "gather", "gatherv", "reduce", "reduce_scatter", "reduce_scatter_block", "scan",
    "scatter", "scatterv",
)  # fmt: skip
_NEIGHBORS = ("allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw")
#: conditions that hold for labkit's calls, that never do, and that depend on the call
_FIXED = {
    "comm_type=intra": True,
    "comm_type=inter": False,
    "comm_hierarchy=parent": False,
    "comm_hierarchy=node_roots": True,
    "comm_hierarchy=node": True,
    "comm_hierarchy=flat": True,
    "comm_size=node_comm_size": False,
    "is_multi_threaded=yes": False,
    "is_multi_threaded=no": True,
    "is_sendbuf_inplace=yes": False,
    "is_sendbuf_inplace=no": True,
    "is_block_regular=yes": True,
    "is_block_regular=no": False,
    "is_node_consecutive=yes": False,
    "is_node_consecutive=no": True,
    "count<pow2": False,
}
_ASKED: dict[str, dict[str, object]] = {
    "is_commutative=yes": {"commutative": True},
    "is_commutative=no": {"commutative": False},
    "is_op_built_in=yes": {"cuttable": True},
    "is_op_built_in=no": {"cuttable": False},
    "comm_size=pow2": {"power_of_two": True},
}
_AMOUNTS = {"comm_size": "ranks", "avg_msg_size": "bytes", "total_msg_size": "total_bytes"}
#: pairs of which one always holds
_OPPOSITE = {"yes": "no", "no": "yes"}


def _auto(operation: str) -> dict[str, object]:
    """Return the leaf that takes every call: MPICH begins the collective and waits for it."""
    return {f"algorithm=MPIR_{operation.capitalize()}_allcomm_nb": {}}


def _leaf(operation: str, name: str | None) -> dict[str, object]:
    """Return an algorithm's leaf, behind conditions where it is not for all calls."""
    auto = _auto(operation)
    if name is None:
        return auto
    functions = {of: function for function, of in reversed(names_table("mpich")[operation].items())}
    if name not in functions:
        raise DataError(
            f"MPICH has no {operation}/{name}: tune with library='mpich', which tries its own only",
            code="no-counterpart",
        )
    function, needs = functions[name], registry.get(operation, name).requirements
    function, *parameters = function.split()
    leaf: dict[str, object] = {f"algorithm={function}": {word: {} for word in parameters}}
    if function.endswith(_WHOLE):
        leaf = {"count<pow2": auto, "count=any": leaf}
        leaf = {"is_op_built_in=no": auto, "is_op_built_in=yes": leaf}
    if needs.commutative:
        leaf = {"is_commutative=no": auto, "is_commutative=yes": leaf}
    if function.endswith(_POWERS_OF_TWO) or (needs.unmet(3) and not needs.unmet(4)):
        leaf = {"comm_size=pow2": leaf, "comm_size=any": auto}
    if operation == "alltoall":
        leaf = {"is_sendbuf_inplace=yes": auto, "is_sendbuf_inplace=no": leaf}
    return leaf


def write(operation: str, bands: Sequence[Band]) -> str:
    """Write a file with a branch for every collective; see `open_mpi.write_classic`."""
    measure = _MEASURES.get(operation)
    if measure is None and any(len(band.steps) > 1 for band in bands):
        raise DataError(
            f"MPICH chooses its {operation} by the number of ranks only: tune for one size",
            code="unsupported",
        )
    groups = []
    for band in bands:
        factor = max(1, int(band.low)) if measure == "total_msg_size" else 1
        steps = [(step.high * factor, _leaf(operation, step.name)) for step in band.steps]
        groups.append((band.high, _below(steps, str(measure))))
    tuned = {"comm_type=intra": _below(groups, "comm_size"), "comm_type=inter": _auto(operation)}
    tree = {f"collective={name}": tuned if name == operation else _auto(name) for name in _BLOCKING}
    for name in _NEIGHBORS:
        tree[f"collective=neighbor_{name}"] = _auto(f"neighbor_{name}")
    tree |= {f"collective={name}": _rest(name, functions) for name, functions in untuned("mpich").items()}
    return json.dumps(tree, indent=1) + "\n"


def _rest(name: str, functions: Sequence[str]) -> dict[str, object]:
    """Return the branch of a nonblocking collective: for one group, two groups, and one buffer for both."""
    leaves: list[dict[str, object]] = [
        {f"algorithm=MPIR_{name.capitalize()}_{function}": {}} for function in functions
    ]
    intra = leaves[0]
    if len(leaves) > 2:
        intra = {"is_sendbuf_inplace=yes": leaves[2], "is_sendbuf_inplace=no": intra}
    return intra if len(leaves) == 1 else {"comm_type=intra": intra, "comm_type=inter": leaves[1]}


def _below(parts: Sequence[tuple[float, dict[str, object]]], measure: str) -> dict[str, object]:
    """Return branches for what is below each bound, in order; of one part the part itself."""
    if len(parts) == 1:
        return parts[0][1]
    found: dict[str, object] = {}
    for high, leaf in parts:
        if high > _MOST:
            return {**found, f"{measure}=any": leaf}
        found[f"{measure}<{int(high)}"] = leaf
    return found


def read(table: dict[str, object], where: str) -> Rules:
    """Read a file that is parsed already."""
    names = names_table("mpich")
    all_names = [*_BLOCKING, *(f"neighbor_{name}" for name in _NEIGHBORS), *untuned("mpich")]
    rows = []
    seen: set[str] = set()
    for key, tree in table.items():
        word, _, operation = _plain(key).partition("=")
        if word != "collective":
            raise ScheduleError(
                f"{where}: MPICH's trees begin with collective=NAME, got {key!r}", code="malformed-line"
            )
        if operation not in all_names:
            meant = nearest(operation, all_names)
            raise ScheduleError(f"{where}: MPICH has no collective {operation!r}{meant}", code="unknown-name")
        if operation in seen:
            raise ScheduleError(f"{where}: {operation} has two trees", code="duplicate-name")
        seen.add(operation)
        if operation in names:
            known = dict(names[operation])
            for conditions, use in _walk(tree, {}, operation, known, where):
                chosen = "default" if use is None else f"{use} or default"
                rows.append({"operation": operation, **conditions, "use": chosen})
    return Rules(rows, where)


def _plain(key: str) -> str:
    return "".join(key.split())


def _walk(
    tree: object, so_far: dict[str, object], operation: str, known: dict[str, str], where: str
) -> Iterator[tuple[dict[str, object], str | None]]:
    """Yield the conditions and the algorithm of each leaf that labkit's calls may come to, in order."""
    if not isinstance(tree, dict) or not tree:
        raise ScheduleError(
            f"{where}: below {operation} there is {tree!r}, where conditions are needed",
            code="malformed-file",
        )
    keys = [_plain(key) for key in tree]
    if any(key.startswith(("algorithm=", "composition=")) for key in keys):
        if len(keys) > 1:
            raise ScheduleError(
                f"{where}: {operation}: an algorithm stands alone below conditions; got {', '.join(keys)}",
                code="malformed-line",
            )
        yield so_far, _use(keys[0], tree, operation, known, where)
        return
    if len(set(keys)) < len(keys):
        raise ScheduleError(
            f"{where}: {operation}: a condition stands twice among {', '.join(keys)}", code="duplicate-name"
        )
    if not _is_complete(keys):
        raise ScheduleError(
            f"{where}: {operation}: {', '.join(keys)} leave calls without an algorithm; the last one is any",
            code="malformed-line",
        )
    for key, branch in zip(keys, tree.values(), strict=True):
        more = _conditions(key, where)
        if more is not None:
            yield from _walk(branch, _both(so_far, more), operation, known, where)


def _is_complete(keys: list[str]) -> bool:
    """Whether one of them always holds: the last one is any, or there are both yes and no."""
    last = keys[-1]
    if last == "any" or last.endswith("=any"):
        return True
    word, _, value = last.partition("=")
    if word == "comm_type":
        return "comm_type=intra" in keys
    return f"{word}={_OPPOSITE.get(value)}" in keys


def _conditions(key: str, where: str) -> dict[str, object] | None:
    """Return what a key asks, as conditions of rules; None where it cannot hold for labkit's calls."""
    if key == "any" or key.endswith("=any"):
        return {}
    if key in _FIXED:
        return {} if _FIXED[key] else None
    if key in _ASKED:
        return _ASKED[key]
    word, sign, value = key.partition("<")
    suffix = "_at_most" if value.startswith("=") else "_below"
    value = value.removeprefix("=")
    if sign and value.isascii() and value.isdecimal() and len(value) < 19:
        if word in _AMOUNTS:
            return {f"{_AMOUNTS[word]}{suffix}": int(value)}
        if word == "comm_avg_ppn":
            return {} if int(value) >= (1 if suffix == "_at_most" else 2) else None
    known = ", ".join([*_FIXED, *_ASKED, *(f"{name}<N and <=N" for name in (*_AMOUNTS, "comm_avg_ppn"))])
    raise ScheduleError(
        f"{where}: unknown condition of MPICH: {key!r}; it knows {known}", code="unknown-name"
    )


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, object]:
    """Return conditions of which both hold; of two bounds the lower one."""
    joined = dict(one)
    for key, value in other.items():
        is_bound = not isinstance(value, bool) and key in joined
        joined[key] = min(joined[key], value) if is_bound else value
    return joined


def _use(key: str, leaf: dict[str, object], operation: str, known: dict[str, str], where: str) -> str | None:
    parameters = next(iter(leaf.values()))
    if not isinstance(parameters, dict) or any(parameters.values()):
        raise ScheduleError(
            f"{where}: {operation}: below {key} there are parameters such as {{'k=2': {{}}}}, "
            f"got {str(parameters)[:200]}",
            code="malformed-line",
        )
    function = " ".join([key.partition("=")[2], *map(_plain, parameters)])
    if function.endswith(("_allcomm_nb", "_allcomm_auto")):
        return None
    if function not in known:
        raise ScheduleError(
            f"{where}: labkit has no counterpart of MPICH's {function}; of {operation} it has "
            f"those of {', '.join(known)}",
            code="no-counterpart",
        )
    return known[function]
