"""A hint of what to type, below an error of Python's own that a cell has met on something of labkit's.

Errors that labkit raises say it themselves; these are raised before any of its code is reached: a module that
is called, an object that is indexed, a call with too few arguments.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from itertools import pairwise
from types import ModuleType

from labkit.errors import LabkitError, near, nearest

__all__ = ["hint_of", "offer_hints"]

_CALLED = {
    "labkit.plot": "lk.plot is a module of figures: lk.plot.gantt(run) draws a run, study.plot() a study",
    "labkit.jupyter.explorers": "lk.explore is a module of explorers: lk.explore.topology() is one",
    "labkit.algorithms": "lk.algorithms is a module: lk.algorithms.sorting holds the sorts, a file each",
    "labkit.datasets": "lk.datasets is a module: lk.datasets.inputs and others hold the data",
    "labkit.errors": "lk.errors is a module of what labkit raises",
}
_COMPARED = (
    "numbers of runs are compared, such as a.makespan_s < b.makespan_s; "
    "lk.contrast(a, b) explains the difference of runs with trace=True"
)

_INDEXED = {
    "Study": "the table of a study is study.data, and study.filter(n=1000) is a part of it",
    "Run": "run.results has an entry for each rank",
    "_Problems": "dir(lk.algorithms) lists the problems, dir(lk.algorithms.bcast) the algorithms of one",
    "Verdict": "verdict.match is the verdict as a string, verdict.model its model",
}
_TABLES = {
    "Study": _INDEXED["Study"],
    "Run": "run.phases is a table of a run; lk.sweep makes a study of several, with its table study.data",
}
#: what of a thing is a number, where a format such as .3f is applied to the thing
_FORMATTED = {
    "Run": "run.makespan_s",
    "ByRank": "run.results[0], the result of rank 0",
    "Study": "study.fit().coefficient",
    "Verdict": "verdict.model.coefficient",
    "Model": "model.coefficient",
}
#: attributes of a run that are None unless an option asks for them
_RECORDED_BY = {"trace": "lk.run(..., trace=True)", "counts": "lk.run(..., count=True)"}
#: what a cell has called that is no function
_VALUE = re.compile(r"'[\w.]+' object is not callable")
#: commands that are typed into a cell as into a shell
_OF_SHELL = re.compile(r"(?:labkit|mpirun|mpiexec|srun|python3?|jupyter) +[\w./-]")
#: a call that does not fit the function
_UNFIT = re.compile(
    r"(?:(?:Study|Figure)\.)?(\w+)\(\) (?:missing \d+ required|takes .* positional arguments? but"
    r"|got an unexpected keyword argument)"
)
#: how these functions are called
_CALLS = {
    "expect": 'study.expect("p log p") judges a study: how its time may grow with the ranks',
    "fit": "lk.fit(p, seconds) fits numbers, study.fit() a study",
    "platform": 'lk.platform("torus:4x4,lat=1us") is a machine: size and options are part of its name; '
    "labkit.explore.topology() shows the topologies",
    "judge": 'lk.judge(p, seconds, "p log p") judges numbers, study.expect("p log p") a study',
    "predict": 'lk.predict("p log p") records an expected growth, before the run',
    "off_line": 'lk.tune("bcast", "torus:4x4") finds the fastest algorithm of a collective',
    "check": 'lk.check("tour_rounds", answer) checks an exercise, which its notebook names',
    "card": 'lk.card("bcast", "torus:4x4") shows what a collective costs',
    "run": "lk.run(program, 8) runs a program, a function program(comm), on 8 ranks",
    "lecture": 'lk.lecture("bcast") shows a broadcast, lk.lecture("sorting", "sample_sort") a sort',
    "save": 'save("figure.pdf") writes a figure, save("study.json") a study',
    "sweep": "lk.sweep(program, [2, 4, 8, 16, 32]) runs a program on these numbers of ranks",
}


def hint_of(error: BaseException) -> str:
    """Return one sentence with what to type; an empty text where nothing is known.

    Examples
    --------
    >>> hint_of(TypeError("'Run' object is not subscriptable"))
    'run.results has an entry for each rank'
    """
    said = str(error)
    if isinstance(error, ValueError) and said.startswith("DataFrame constructor not properly called"):
        return _TABLES.get(type(_names_at(error).get("data")).__name__, "")
    if type(error).__name__ == "UsageError" and (magic := re.match(r"Cell magic `%%(\w+)` not found", said)):
        return "write %%spmd" if near(magic[1], ["spmd"]) else ""
    if isinstance(error, KeyError):
        return _column_asked_for(error)
    if isinstance(error, LabkitError):
        return ""
    if isinstance(error, SyntaxError):
        line = (error.text or "").strip()
        return f"a command of the shell begins with !, as in !{line}" if _OF_SHELL.match(line) else ""
    if isinstance(error, ImportError):
        return _import_meant(error)
    if isinstance(error, AttributeError):
        return _called_too_early(error) or _not_recorded(error, said)
    return _of_type_error(error, said) if isinstance(error, TypeError) else ""


def _of_type_error(error: TypeError, said: str) -> str:
    if formatted := re.fullmatch(r"unsupported format string passed to (\w+)\.__format__", said):
        number = _FORMATTED.get(formatted[1])
        return f"a format such as .3f is for a number: {number}" if number else ""
    if re.search(r"(?:operand type\(s\) for .*|between instances of) '?Run'? and 'Run'$", said):
        return _COMPARED
    if said == "'module' object is not callable":
        names = [one.__name__ for one in _called(error) if isinstance(one, ModuleType)]
        return next((_CALLED.get(name) or _function_of(name) for name in names), "")
    if unrecorded := _not_recorded(error, said) or _only_some_returned(error, said):
        return unrecorded
    if indexed := re.fullmatch(r"'(\w+)' object is not (subscriptable|iterable)", said):
        return "" if _is_foreign(_names_at(error).get(indexed[1])) else _INDEXED.get(indexed[1], "")
    if said == "object of type 'Run' has no len()" and not _is_foreign(_names_at(error).get("Run")):
        return "run.ranks is the number of ranks, and run.results has an entry for each"
    if _VALUE.fullmatch(said):
        return _called_value(error)
    if chosen := re.fullmatch(r"Study\.(\w+)\(\) got an unexpected keyword argument '(\w+)'", said):
        return _chosen_by_name(error, *chosen.groups())
    if unfit := _UNFIT.match(said):
        if handed := _handed_over(error, unfit[1]):
            return handed
        own = [one for one in _called(error) if getattr(one, "__name__", "") == unfit[1]]
        if on_ranks := next((said for said in map(_on_ranks, own) if said), ""):
            return on_ranks
        return "" if any(map(_is_foreign, own)) else _CALLS.get(unfit[1], "")
    return ""


def _function_of(module: str) -> str:
    """Return the import of the function that a module of an algorithm is named after."""
    name = module.rpartition(".")[2]
    if not module.startswith("labkit.algorithms.") or not callable(getattr(sys.modules[module], name, None)):
        return ""
    return f"{name} is a module; its function: from {module} import {name}"


def _on_ranks(called: object) -> str:
    """Return how a function of `labkit.algorithms` is called: on ranks, with its arguments by name."""
    if not str(getattr(called, "__module__", "")).startswith("labkit.algorithms.") or not callable(called):
        return ""
    taken = [*inspect.signature(called).parameters.values()]
    if not taken or taken[0].name != "comm":
        return ""
    given = "".join(f", {one.name}=..." for one in taken[1:] if one.default is one.empty)
    name = getattr(called, "__name__", "program")
    return f"it runs on ranks, each with its communicator: lk.run({name}, 8{given})"


def _only_some_returned(error: BaseException, said: str) -> str:
    """Describe the results of a run of which some are None: ``sum(run.results)``."""
    lines = [step.line or "" for step in traceback.extract_tb(error.__traceback__)]
    found = next((at for at in (re.search(r"(\w+)\.results\b", line) for line in lines) if at), None)
    frames = [{**frame.f_globals, **frame.f_locals} for frame, _ in traceback.walk_tb(error.__traceback__)]
    if found is None or "NoneType" not in said:
        return ""
    run = next((names[found[1]] for names in frames if found[1] in names), None)
    results = list(getattr(run, "results", ()))
    missing = [rank for rank, result in enumerate(results) if result is None]
    if not missing or _is_foreign(type(run)):
        return ""
    if len(missing) == len(results):
        return f"{found[1]}.results has None only: the program returns nothing"
    return (
        f"{found[1]}.results has None for {len(missing)} of {len(results)} ranks, such as rank {missing[0]}: "
        "reduce and gather give their result to the root alone, allreduce and allgather to every rank"
    )


def _import_meant(error: ImportError) -> str:
    """Return as text what a module of labkit's has, as its own AttributeError does."""
    found = re.match(r"cannot import name '(\w+)' from '(labkit[\w.]*)'", str(error))
    owner, _, name = (error.name or "").rpartition(".")
    if found:
        name, owner = found.groups()
    module = sys.modules.get(owner)
    if module is None or owner.partition(".")[0] != "labkit":
        return ""
    try:
        getattr(module, name)
    except LabkitError as known:
        return str(known)
    except AttributeError:
        return f"{owner} has no {name!r}{nearest(name, dir(module))}"
    return ""


def _not_recorded(error: BaseException, said: str) -> str:
    """Describe how a run gets what it does not have: ``run.trace.gantt()`` of a run without a trace."""
    names = _names_at(error)
    for owner, name in re.findall(r"([\w.]+)(?:\([^()]*\))?\.(trace|counts)\b", _line_of(error)):
        is_run = type(names.get(owner)).__name__ == "Run" or owner.rpartition(".")[2] == "run"
        if is_run and "'NoneType' object" in said:
            return f"{name} is None: this run has none; {_RECORDED_BY[name]} records it"
    return ""


def _column_asked_for(error: KeyError) -> str:
    """Describe how a metric is got out of a study's table, which has a row for each value."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    tables = [frame.f_locals.get("self") for frame in frames]
    if not any({"metric", "value"} <= {*map(str, getattr(table, "columns", ()))} for table in tables):
        return ""  # a key of something else
    for frame in frames:
        for name, one in {**frame.f_globals, **frame.f_locals}.items():
            is_study = type(one).__name__ == "Study" and not _is_foreign(type(one))
            if is_study and str(error.args[0]) in one.metrics:
                return f"{name}.to_frame(wide=True) has a column for each metric"
    return ""


def _called_value(error: BaseException) -> str:
    """Return the sentence that something of labkit's is a value, where it was called: ``run.results()``."""
    names = _names_at(error)
    for owner, name in re.findall(r"([A-Za-z_]\w*)\.(\w+)\(", _line_of(error)):
        thing = names.get(owner)
        if thing is None or isinstance(thing, ModuleType) or _is_foreign(type(thing)):
            continue
        if hasattr(thing, name) and not callable(getattr(thing, name)):
            return f"{owner}.{name} is a value: write {owner}.{name}, without parentheses"
    return ""


def _chosen_by_name(error: BaseException, method: str, name: str) -> str:
    """Describe how a parameter's value is chosen: ``study.expect("log p", n=1000)``."""
    found = re.search(rf"(\w+)\.{method}\(.*\b{name}=([^,()]+)", _line_of(error))
    study = _names_at(error).get(found[1]) if found else None
    if found is None or _is_foreign(type(study)) or name not in getattr(study, "data", ()):
        return ""
    return f"one value of {name} is chosen by where: {found[1]}.{method}(..., where={{{name!r}: {found[2]}}})"


def _handed_over(error: BaseException, name: str) -> str:
    """Return the sentence that a program goes to labkit uncalled: ``lk.run(main(), 4)``."""
    found = re.search(rf"\b(\w+\.(?:run|sweep))\(\s*{name}\(\)(.*)", _line_of(error))
    return f"hand over the function itself, uncalled: {found[1]}({name}{found[2]}" if found else ""


def _called_too_early(error: AttributeError) -> str:
    """Return the sentence that a program is passed uncalled, with its arguments: ``lk.run(main(4), 4)``."""
    steps = traceback.extract_tb(error.__traceback__)
    for step, inside in pairwise(steps):
        found = re.search(rf"\b(\w+\.(?:run|sweep))\(\s*{re.escape(inside.name)}\(", step.line or "")
        if found:
            return f"hand over the function itself, uncalled: {found[1]}({inside.name}, ...)"
    return ""


def _line_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return (frames[-1].line or "") if frames else ""


def _called(error: BaseException) -> list[object]:
    """Return what the line of an error calls by a name, of modules too: ``f(...)``, ``lk.plot(...)``."""
    names = _names_at(error)
    found = []
    for path in re.findall(r"([A-Za-z_][\w.]*)\(", _line_of(error)):
        first, *rest = path.split(".")
        one = names.get(first)
        for name in rest:
            one = getattr(one, name, None) if isinstance(one, ModuleType) else None
        found.append(one)
    return found


def _names_at(error: BaseException) -> dict[str, object]:
    """Return the names where an error was raised, with what they stand for."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return {**frames[-1].f_globals, **frames[-1].f_locals} if frames else {}


def _is_foreign(thing: object) -> bool:
    """Whether a function or class is somebody else's, called as one of labkit's."""
    return thing is not None and not str(getattr(thing, "__module__", "")).startswith("labkit")


def offer_hints() -> None:
    """Print them below errors in the running IPython, once."""
    from IPython import get_ipython

    shell: object = get_ipython()
    events = getattr(shell, "events", None)
    if events is not None and _tell not in events.callbacks["post_run_cell"]:
        events.register("post_run_cell", _tell)


def _tell(result: object) -> None:
    """Print the hint of a cell's error."""
    error = getattr(result, "error_in_exec", None) or getattr(result, "error_before_exec", None)
    hint = hint_of(error) if error is not None else ""
    if hint:
        print(hint)
