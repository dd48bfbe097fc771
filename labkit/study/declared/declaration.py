"""The declaration of a study: a TOML file, checked as a whole before any work starts.

It states what program is run, at which points, how often, and what growth is expected; ``labkit study FILE``
carries it out, and ``labkit study --help`` has an example. ``[parameters]`` needs ranks; on, model, coll,
noise and the program's own may stand there as well, each a value or a list. ``[run]`` has options of
`labkit.sweep`, each ``[[expect]]`` the arguments of `labkit.Study.expect`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.errors import DataError, ExpectationError, LabkitError, ProgramError, nearest
from labkit.launch.run import checked_request
from labkit.process.imports import imported_files, program_digests
from labkit.scaling import read_expectation
from labkit.scaling.description import TOLERANCE, check_tolerance
from labkit.scaling.parser import parse
from labkit.study.points import choice_text, collective_choices, rank_counts
from labkit.study.sweep_points import Planned, plan_sweep
from labkit.text.files import require_file, toml_of
from labkit.timing import Repeats

__all__ = ["Declaration", "Expected", "read_declaration"]

_TOP = ("title", "program", "args", "parameters", "run", "metrics", "expect")
_RUN = (
    "repeats",
    "warmup",
    "seed",
    "timeout_s",
    "tolerance",
    "calibration",
    "jobs",
    "mapping",
    "noise",
    "compute",
)
#: of the runs, not of the sweep
_OPTIONS = ("mapping", "compute")
_REPEATS = ("within", "level", "statistic", "least", "most", "most_s")
_EXPECT = ("growth", "metric", "phase", "parameter", "where", "given", "deviation", "tolerance")
#: parameters of the machine, in addition to those of the program
_AXES = ("ranks", "on", "model", "coll", "noise")
#: the modules of programs as they were when a study of this process imported them, by name
_imported: dict[str, tuple[Path, bytes]] = {}


@dataclass(frozen=True)
class Expected:
    """One expectation of a study.

    `growth`: In big-O notation.
    `metric`, `phase`, `parameter`, `deviation`: As in `labkit.Study.expect`.
    `tolerance`: As there.
    `where`, `given`: As there; every curve that `where` leaves is judged by itself.
    """

    growth: str
    metric: str | None = None
    phase: str | None = None
    parameter: str | None = None
    where: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    deviation: str | None = None
    tolerance: float = TOLERANCE


@dataclass
class Declaration:
    """A study as its file declares it.

    `program`: A function, or a script.
    `program_text`: As it was written down.
    `program_files`: SHA-256 of the file that holds the program, which is the first, and of all modules that
        it imports outside Python and installed packages; empty for a program without a file.
    `parameters`: Values of ranks, on, model, coll and the program's own, as they were given.
    `run`: Options of `labkit.sweep`.
    `metrics`: Those to report; empty: the times, and what is expected of others.
    `warnings`: What does not keep the study from running.
    """

    path: Path
    title: str
    program: Any
    program_text: str
    program_files: dict[str, str]
    parameters: dict[str, Any]
    run: dict[str, Any]
    args: list[Any]
    metrics: list[str]
    expected: list[Expected]
    warnings: list[str] = field(default_factory=list)

    @property
    def program_sha256(self) -> str:
        """SHA-256 of the file that contains the program, or an empty string."""
        return next(iter(self.program_files.values()), "")

    def planned(self, jobs: object = None) -> Planned:
        """Return the sweep of all points.

        Raises LabkitError: As `labkit.sweep`, before it runs.
        """
        how = {name: value for name, value in self.run.items() if name not in _OPTIONS}
        options: dict[str, object] = {name: self.run[name] for name in _OPTIONS if name in self.run}
        word, _, file = str(options.get("compute", "")).partition(":")
        if word == "recorded" and file:  # as all paths of the file: from where it lies
            options["compute"] = f"recorded:{self.path.parent / file}"
        if jobs is not None:
            how["jobs"] = jobs
        return plan_sweep(self.program, args=self.args, options=options, **self.parameters, **how)


def read_declaration(path: str | os.PathLike[str]) -> Declaration:
    """Read a study's file, and refuse what could not be run or judged.

    Raises LabkitError: In a sentence with the place, what is allowed, and for an unknown name the nearest
        one.
    """
    place = Path(path)
    name = os.fspath(path)
    require_file(place)
    try:
        content = toml_of(place.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(
            f"{name!r} cannot be read: {error.strerror or error}", code="unreadable-file"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{name!r} is no TOML file: {error}", code="malformed-file") from error
    _refuse_unknown(content, _TOP, f"{name}")
    parameters = _table(content, "parameters", name)
    if "ranks" not in parameters:
        raise DataError(
            f"{name}: [parameters] needs ranks, as in ranks = [4, 8, 16, 32, 64]", code="ranks-required"
        )
    run = _run(_table(content, "run", name), name)
    if "noise" in run and "noise" in parameters:
        raise DataError(
            f"{name}: noise is given in [run] and in [parameters]; leave out one of them",
            code="conflicting-options",
        )
    program_text = _text(content, "program", name, needed=True)
    folder = place.resolve().parent
    program, files = _program(program_text, folder, name)
    args = content.get("args", [])
    if not isinstance(args, list):
        raise DataError(f"{name}: args is a list, got {args!r}", code="wrong-type")
    declaration = Declaration(
        place,
        _text(content, "title", name) or place.stem,
        program,
        program_text,
        files,
        _parameters(parameters, name),
        run,
        args,
        _names(content, "metrics", name),
        [],
    )
    _check_points(declaration)
    declaration.expected = _expected(content, declaration, name)
    _warn(declaration)
    return declaration


def _refuse_unknown(table: Mapping[str, object], known: Collection[str], where: str) -> None:
    for key in table:
        if key not in known:
            meant = nearest(key, known, 1, 0.5)
            raise DataError(
                f"{where}: {key!r} is not known here{meant} Known: {', '.join(known)}", code="unknown-name"
            )


def _table(content: Mapping[str, object], key: str, where: str) -> dict[str, Any]:
    table = content.get(key, {})
    if not isinstance(table, dict):
        raise DataError(f"{where}: {key} is a table, [{key}], got {table!r}", code="wrong-type")
    return table


def _text(content: Mapping[str, object], key: str, where: str, needed: bool = False) -> str:
    value = content.get(key, "")
    if not isinstance(value, str):
        raise DataError(f"{where}: {key} is a text, got {value!r}", code="wrong-type")
    if needed and not value.strip():
        raise DataError(
            f'{where}: {key} is missing: {key} = "sort.py:program" is a file and a function in it',
            code="missing-key",
        )
    return value


def _names(content: Mapping[str, object], key: str, where: str) -> list[str]:
    value = content.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise DataError(f"{where}: {key} is a list of names, got {value!r}", code="wrong-type")
    return list(value)


def _run(table: dict[str, Any], where: str) -> dict[str, object]:
    _refuse_unknown(table, _RUN, f"{where}, [run]")
    run = dict(table)
    for key in ("warmup", "seed", "jobs"):
        least = 0 if key != "jobs" else 1
        if key in run and (isinstance(run[key], bool) or not isinstance(run[key], int) or run[key] < least):
            raise DataError(
                f"{where}, [run]: {key} is a whole number >= {least}, got {run[key]!r}", code="wrong-type"
            )
    if isinstance(run.get("repeats"), dict):
        _refuse_unknown(run["repeats"], _REPEATS, f"{where}, repeats of [run]")
        try:
            run["repeats"] = Repeats(**run["repeats"])
        except (TypeError, ValueError, LabkitError) as error:
            raise DataError(f"{where}, repeats of [run]: {error}") from error
    for key in ("calibration", "mapping", "noise", "compute"):
        if key in run and not isinstance(run[key], str):
            raise DataError(f"{where}, [run]: {key} is a text, got {run[key]!r}", code="wrong-type")
    return run


def _parameters(table: dict[str, object], where: str) -> dict[str, object]:
    taken = set(inspect.signature(plan_sweep).parameters) - set(_AXES)
    for key, value in table.items():
        if key in taken:
            raise DataError(
                f"{where}, [parameters]: {key!r} is an option of sweeps, which stands in [run]; a "
                "parameter of the program needs another name",
                code="name-taken",
            )
        parts = value if isinstance(value, list) else [value]
        if not parts:
            raise DataError(f"{where}, [parameters]: {key} has no values", code="missing-key")
        if key == "coll":
            continue
        if any(isinstance(one, dict | list) for one in parts):
            raise DataError(f"{where}, [parameters]: {key} is a value or a list of values, got {value!r}")
        if key in ("on", "model", "noise") and not all(isinstance(one, str) for one in parts):
            raise DataError(
                f"{where}, [parameters]: {key} is a text or a list of texts, got {value!r}", code="wrong-type"
            )
    return dict(table)


def _program(text: str, folder: Path, where: str) -> tuple[Any, dict[str, str]]:
    """Find the program: FILE.py:FUNCTION next to the study, MODULE:FUNCTION, or a script."""
    source, colon, name = text.rpartition(":")
    if not colon:
        script = folder / text
        return script, _digests(script, where)
    if source.endswith(".py"):
        path = folder / source
        _digests(path, where)  # refuses what cannot be read
        _forget_changed(path)
        module = _load_file(path, where)
        files = _digests(path, where)  # what it did to sys.path counts
    else:
        try:
            module = importlib.import_module(source)
        except Exception as error:  # importing runs foreign code: anything may be raised
            raise ProgramError(
                f"{where}: program = {text!r}: the module {source!r} cannot be imported: {_one_line(error)}",
                code="unreadable-file",
            ) from error
        file = getattr(module, "__file__", None)
        files = _digests(Path(file), where, module.__package__ or "") if file else {}
    found = getattr(module, name, None)
    if not callable(found):
        functions = [
            key for key, value in vars(module).items() if callable(value) and not key.startswith("_")
        ]
        meant = nearest(name, functions, 1, 0.5) or f"; it has: {', '.join(functions[:12]) or 'none'}"
        raise ProgramError(
            f"{where}: program = {text!r}: {source} has no function {name!r}{meant}",
            code="missing-definition",
        )
    return found, files


def _digests(path: Path, where: str, package: str = "") -> dict[str, str]:
    try:
        return program_digests(path, package)
    except OSError as error:
        raise ProgramError(
            f"{where}: the program {str(path)!r} cannot be read: {error.strerror or error}; it is looked for "
            "next to the study's file",
            code="unreadable-file",
        ) from error


def _forget_changed(path: Path) -> None:
    """Have modules imported again that were edited since an earlier study of this process."""
    now = {name: (file, file.read_bytes()) for name, file in imported_files(path).items() if file.is_file()}
    is_changed = any(_imported.get(name, content) != content for name, content in now.items())
    _imported.update(now)
    if is_changed:
        for name in now:
            sys.modules.pop(name, None)


def _load_file(path: Path, where: str) -> object:
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # for what it imports from its folder
    name = path.stem if path.stem not in sys.modules else f"labkit_study_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # it ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    writes_no_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:  # bytecode hides an edit within the same second that keeps the file's size
        spec.loader.exec_module(module)
    except BaseException as error:  # foreign code
        sys.modules.pop(name, None)
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ProgramError(
            f"{where}: {path.name} cannot be read: {_one_line(error)}", code="unreadable-file"
        ) from error
    finally:
        sys.dont_write_bytecode = writes_no_bytecode
    return module


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _check_points(declaration: Declaration) -> None:
    """Have every point checked as its run will be."""
    name = os.fspath(declaration.path)
    try:
        planned = declaration.planned()
        for point in planned.plan:
            how = planned.job.launch(point)
            checked_request(declaration.program, point.ranks, **how)
    except LabkitError as error:
        raise DataError(f"{name}: {str(error).strip().splitlines()[0]}") from error
    except (TypeError, ValueError, OverflowError) as error:  # a value of a kind that nobody expects
        raise DataError(f"{name}: a value of [parameters] or [run] cannot be used: {error}") from error


def _expected(content: Mapping[str, object], declaration: Declaration, where: str) -> list[Expected]:
    entries = content.get("expect", [])
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise DataError(
            f"{where}: expectations are tables, each [[expect]], got {entries!r}", code="wrong-type"
        )
    columns = _columns(declaration.parameters)
    found = []
    for number, entry in enumerate(entries, 1):
        place = f"{where}, [[expect]] number {number}"
        _refuse_unknown(entry, _EXPECT, place)
        texts = {key: _text(entry, key, place) for key in ("metric", "phase", "parameter", "deviation")}
        expected = Expected(
            _text(entry, "growth", place),
            tolerance=check_tolerance(entry.get("tolerance", TOLERANCE)),
            where=dict(_table(entry, "where", place)),
            given=dict(_table(entry, "given", place)),
            **{key: value or None for key, value in texts.items()},
        )
        _check_expected(expected, columns, place)
        found.append(expected)
    return found


def _columns(parameters: Mapping[str, object]) -> dict[str, list[object]]:
    """Return the columns that the study will have, with their values."""
    columns = {key: list(value) if isinstance(value, list) else [value] for key, value in parameters.items()}
    columns["ranks"] = rank_counts(parameters["ranks"])
    columns.setdefault("on", ["star"])
    if "coll" in columns:
        columns["coll"] = [choice_text(one) for one in collective_choices(parameters["coll"])]
    return columns


def _check_expected(expected: Expected, columns: Mapping[str, list[object]], place: str) -> None:
    if not expected.growth.strip():
        raise ExpectationError(f'{place}: growth is missing, as in growth = "p log2(p)"', code="missing-key")
    for key, value in expected.where.items():
        _refuse_unknown({key: value}, list(columns), f"{place}, where")
        if value not in columns[key]:
            values = ", ".join(map(str, columns[key][:12]))
            raise DataError(
                f"{place}, where: {key} is never {value!r}; its values: {values}", code="unknown-name"
            )
    numeric = [k for k, v in columns.items() if all(isinstance(one, int | float) for one in v)]
    if expected.parameter is not None and expected.parameter not in ("p", *numeric):
        raise DataError(
            f"{place}: {expected.parameter!r} is no parameter that is a number; known: {', '.join(numeric)}",
            code="unknown-name",
        )
    try:
        symbols = frozenset().union(*(one.symbols for one in parse(expected.growth)))
        known = {"p", *numeric, *expected.given}
        if unknown := sorted(symbols - known):
            raise ExpectationError(
                f"{expected.growth!r}: {unknown[0]!r} is not a parameter of this study; known: "
                f"{', '.join(['p', *(one for one in numeric if one != 'ranks'), *expected.given])}",
                code="unknown-name",
            )
        unused = sorted(set(expected.given) - symbols)
        if unused and expected.deviation in (None, "strict"):
            raise ExpectationError(
                f"given names {unused[0]!r}, which is not in the growth {expected.growth!r}: leave it out",
                code="conflicting-options",
            )
        if expected.deviation not in (None, "strict"):
            varied = expected.parameter or min(symbols - set(expected.given), default="p")
            read_expectation(str(expected.deviation), "p" if varied == "ranks" else varied)
    except ExpectationError as error:
        raise ExpectationError(f"{place}: {error}") from error


def _warn(declaration: Declaration) -> None:
    for number, expected in enumerate(declaration.expected, 1):
        columns = _columns(declaration.parameters)
        parameter = expected.parameter or "ranks"
        values = columns.get("ranks" if parameter == "p" else parameter, [])
        is_few = 1 < len(set(map(str, values))) < 5 or (len(values) == 1 and _varies(columns) == 0)
        if is_few:
            declaration.warnings.append(
                f"expectation {number} ({expected.growth}): a verdict needs at least 5 values of "
                f"{parameter}, and it has {len(values)}"
            )


def _varies(columns: Mapping[str, Sequence[object]]) -> int:
    return sum(len(values) > 1 and isinstance(values[0], int | float) for values in columns.values())
