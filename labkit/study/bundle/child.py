"""Runs a bundle's simulated points again, in a separate process, confined: ``labkit.study.bundle.child``.

``python -m labkit.study.bundle.child FOLDER MEMORY PARENT [WALL ...]``: bytes of memory, the process with
which it ends, and walls to leave out, for tests. The folder holds the bundle's program, recipe and machines,
and a request: which repetitions of which points.
The first line of the answer says what confines the process; each other one is one of them: its rows, or its
error, or that it needed more memory than there is. What was measured before is not in the folder.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TextIO

from labkit.errors import DataError, LabkitError
from labkit.process.confinement.program import confine_program
from labkit.study.bundle.recipe_file import ANSWER, REQUEST, decode
from labkit.study.bundle.source import executed

__all__ = ["Rerun", "main"]


class Rerun:
    """The recipe of a bundle that is unpacked in a folder, ready to run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[str, object] = {}
        recipe = json.loads((folder / "recipe.json").read_text("utf-8"))
        machines = json.loads((folder / "machines.json").read_text("utf-8"))
        self.platforms = [decode(one["object"]) for one in machines["platforms"]]
        self.models = [decode(one["object"]) for one in machines["models"]]
        self.calibration = decode(machines["calibration"])
        self.points = recipe["points"]
        self.seed, self.timeout_s = recipe["seed"], recipe["timeout_s"]
        for name in ("modules", "scripts"):
            if (folder / "program" / name).is_dir():
                sys.path.insert(0, str(folder / "program" / name))
        self.program = self.value(recipe["program"])
        self.args = self.value(recipe["args"])
        self.measure = self.value(recipe["measure"])
        self.options = self.value(recipe["options"])

    def value(self, form: object) -> Any:
        """Return what a plain form stands for: of a function, the function itself."""
        return decode(form, self._special)

    def rows(self, index: int, repetition: int) -> list[dict[str, object]]:
        """Run one repetition of a point, and return its rows; raises as `labkit.run`."""
        from labkit.launch.run import run
        from labkit.study.measure import with_seed
        from labkit.study.rows import cell, run_rows

        point = self.points[index]
        parameters = self.value(point["parameters"])
        options = {"calibration": self.calibration} | self.options | self.value(point.get("options", {}))
        done = run(
            self.program,
            point["ranks"],
            on=self.platforms[point["platform"]],
            model=self.models[point["model"]],
            args=self.args,
            timeout_s=self.timeout_s,
            kwargs=with_seed(self.program, self.args, parameters, self.seed + repetition),
            seed=self.seed + repetition,
            count=True,
            **options,
        )
        extra = self.measure(done) if self.measure else None
        shown = {name: cell(value) for name, value in parameters.items()} | point.get("cells", {})
        return run_rows(done, shown, repetition, extra)

    def _special(self, form: dict[str, Any]) -> object:
        kind = next(iter(form))
        if kind == "$script":
            return self._inside(form[kind])
        key = json.dumps(form, sort_keys=True)
        if key not in self._made:
            makers = {
                "$source": self._source,
                "$import": _imported,
                "$pickle": self._unpickled,
                "$partial": self._partial,
            }
            if kind not in makers:
                raise DataError(
                    f"the recipe holds a value of an unknown kind, {kind}", code="malformed-value"
                )
            self._made[key] = makers[kind](form[kind])
        return self._made[key]

    def _source(self, form: dict[str, Any]) -> object:
        path = self._inside(form["file"])
        values = {name: self.value(one) for name, one in form["values"].items()}
        return executed(path.read_text("utf-8"), values, str(path))[form["name"]]

    def _unpickled(self, form: dict[str, Any]) -> object:
        import pickle

        # The caller has said that the bundle's code may run; a pickle is no more than that.
        return pickle.loads(self._inside(form["file"]).read_bytes())[0]

    def _partial(self, form: object) -> object:
        parts = self.value(form)
        return functools.partial(parts["func"], *parts["args"], **parts["keywords"])

    def _inside(self, name: str) -> Path:
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()) or not path.is_file():
            raise DataError(f"the recipe names {name!r}, which is not in the bundle", code="damaged-file")
        return path


def _imported(form: dict[str, Any]) -> object:
    try:
        return getattr(importlib.import_module(form["module"]), form["name"])
    except (ImportError, AttributeError) as error:
        needs = f" (written with {form['version']})" if form.get("version") else ""
        raise DataError(
            f"{form['module']}.{form['name']} cannot be imported here{needs}: {error}", code="unreadable-file"
        ) from error


def main(folder: str, memory_bytes: int, parent: int, without: Collection[str] = ()) -> int:
    """Answer the request in a folder; return 0, or 1 when nothing could be run."""
    place = Path(folder)
    request = json.loads((place / REQUEST).read_text("utf-8"))
    walls = confine_program(folder, memory_bytes, parent, without)
    with (place / ANSWER).open("w", encoding="utf-8", buffering=1) as answer:
        _write(answer, {"walls": walls})
        try:
            again = Rerun(place)
        except Exception as error:  # the bundle's code runs here
            _write(answer, {"fatal": f"{type(error).__name__}: {error}"})
            return 1
        for line in _answers(again, request):
            _write(answer, line)
    return 0


def _answers(again: Rerun, request: list[dict[str, Any]]) -> Iterator[dict[str, object]]:
    for wanted in request:
        for repetition in wanted["repetitions"]:
            head = {"point": wanted["point"], "repetition": repetition}
            try:
                yield {**head, "rows": again.rows(wanted["point"], repetition)}
            except Exception as error:
                yield {**head, "memory": True} if _is_memory(error) else {**head, "error": _words(error)}


def _words(error: Exception) -> str:
    text = str(error).strip().splitlines() if isinstance(error, LabkitError) else [str(error)]
    return f"{type(error).__name__}: {text[0] if text else ''}"


def _is_memory(error: BaseException | None) -> bool:
    """Whether what ended a run was a lack of memory: in the simulator, or in a rank, whose error is text."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, LabkitError) and "MemoryError" in str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _write(answer: TextIO, line: dict[str, object]) -> None:
    answer.write(json.dumps(line, default=str) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
