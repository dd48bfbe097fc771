"""The pytest plugin: ``@pytest.mark.scaling`` and the fixture ``scaling``.

A test hands its program to the fixture; the marker states where it runs and what is promised::

    @pytest.mark.scaling(expect="log p", ranks=[4, 8, 16, 32, 64], on="star:64")
    def test_my_broadcast(scaling):
        scaling(my_broadcast)

Without ``expect`` the growth found first is the baseline, kept as JSON next to the test (``scaling/``): later
runs must not grow faster, and must not take more than 1.5 times as long (``slower``). ``--scaling-update``
writes it again.

A test whose verdict is undecided fails; with ``undecided="xfail"`` (``--scaling-undecided``,
``scaling_undecided`` in pytest's configuration) it is an expected failure with its reason.
"""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import pytest

from labkit.errors import DataError, LabkitError, StudyWarning
from labkit.text.files import json_of, replace_file, text_of

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from labkit.scaling import Model, Verdict
    from labkit.study import Study

__all__ = ["ScalingFixture", "read_baseline", "scaling"]

_PACKAGE = Path(__file__).parents[1]
_JUDGING = ("metric", "phase", "deviation", "given", "space", "aggregate", "tolerance")

_OWN = ("expect", "undecided", "slower")

_UNDECIDED = ("fail", "xfail")

#: simulated times and counts of a program that is as it was do not change at all
_SLOWER = 1.5


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of scaling tests."""
    group = parser.getgroup("labkit", "scaling promises")
    group.addoption(
        "--scaling-update", action="store_true", help="write the baselines of scaling tests again"
    )
    group.addoption(
        "--scaling-figures",
        metavar="FOLDER",
        default=".labkit/scaling",
        help="where figures of failed scaling tests go (default: .labkit/scaling; 'none' for no figures)",
    )
    undecided = "what becomes of a scaling test whose verdict is undecided: fail (the default) or xfail"
    slower = f"fail above this factor of the baseline's measurements (default: {_SLOWER:g}; 'none' for never)"
    group.addoption("--scaling-undecided", choices=_UNDECIDED, help=undecided)
    parser.addini("scaling_undecided", undecided, default="")
    group.addoption("--scaling-slower", metavar="FACTOR", help=slower)
    parser.addini("scaling_slower", slower, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "scaling(expect, ranks, on, metric, phase, deviation, undecided, slower, **sweep): the growth that "
        "the program given to the fixture `scaling` keeps; without `expect` it must not grow faster than its "
        "baseline, nor be slower by more than a factor",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Leave labkit's own frames out of the traceback of its errors; ``--full-trace`` shows them."""
    error = None if call.excinfo is None else call.excinfo.value
    is_in_labkit = _PACKAGE.is_relative_to(item.config.rootpath)
    if not isinstance(error, LabkitError) or is_in_labkit or item.config.getoption("fulltrace"):
        return
    kept = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith(f"{_PACKAGE}{os.sep}")
    ]
    shown = None
    for frame, line in reversed(kept):
        shown = TracebackType(shown, frame, frame.f_lasti, line)
    if shown is not None:
        call.excinfo = pytest.ExceptionInfo.from_exception(error.with_traceback(shown))


# Baselines: the growth a program had, kept as JSON in its own repository.


@dataclass(frozen=True)
class Baseline:
    """What a program's growth was, and what it was measured with.

    Attributes
    ----------
    growth, model : str
        The order of growth, and the model with its numbers.
    parameter : str
        What was varied.
    values : dict of str to float
        The aggregated measurements, by the parameter's values.
    made_with : dict
        Where a change outside the program shows: labkit's version, the machines and digests of their content,
        the network models, and what the engine computes for a fixed program with each of them.
    """

    growth: str
    model: str
    parameter: str
    values: dict[str, float]
    made_with: dict[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, study: Study) -> Baseline:
        """Return the baseline of a model fitted to a study."""
        return cls(
            str(model.term), model.formula, model.parameter, by_place(model.x, model.y), made_with(study)
        )

    def factor(self, values: Mapping[str, float]) -> tuple[float, str] | None:
        """Return how many times larger values are than these, and where that is; None where nothing compares.

        It is the larger one of the factor at the largest value of the parameter and the median of all.
        """
        found = {at: values[at] / old for at, old in self.values.items() if at in values and old > 0}
        if not found:
            return None
        last = max(found, key=float)
        middle = statistics.median(found.values())
        if found[last] >= middle:
            return found[last], f"at {self.parameter} = {last}"
        return middle, f"in the median of {len(found)} values of {self.parameter}"

    def changed(self, study: Study) -> list[str]:
        """Return as a sentence what is not as it was when the baseline was made."""
        now = made_with(study)
        names = [name for name in {**self.made_with, **now} if self.made_with.get(name) != now.get(name)]
        return [f"{name} was {self.made_with.get(name)!r} and is {now.get(name)!r}" for name in names]


def by_place(x: Iterable[float], y: Iterable[float]) -> dict[str, float]:
    """Return measurements by the parameter's values, as a baseline keeps them."""
    return {f"{at:.15g}": float(value) for at, value in zip(x, y, strict=True)}


def made_with(study: Study) -> dict[str, object]:
    """Return the versions and machines of a study."""
    import labkit

    def names(column: str) -> list[str]:
        return sorted({str(v) for v in study.data[column].dropna().unique() if v})

    described: dict[str, object] = study.notes.get("machines", {})
    contents = {
        f"the content of {on} (platform, mapping, network model, calibration)": str(one["digest"])[:16]
        for on, one in sorted(described.items())
        if isinstance(one, dict) and one.get("digest")
    }
    probes = {f"engine with model {name}": probe(name) for name in names("model")}
    return {
        "labkit": labkit.__version__,
        "on": ", ".join(names("on")),
        "network model": ", ".join(names("model")),
        **contents,
        **probes,
    }


@cache
def probe(model: str) -> str:
    """Return what the engine computes for a fixed program: the same to the bit until the engine changes.

    Neighbors exchange a message above and one below the eager limit, then all ranks reduce: start-ups,
    shared links and the model's numbers are in it, collectives' algorithms too.
    """
    import labkit

    def program(comm: Intracomm) -> float:
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        for n_bytes in (100, 1_000_000):
            comm.sendrecv(bytes(n_bytes), dest=right, source=left)
        comm.allreduce(comm.rank)
        return 0.0

    try:
        run = labkit.run(program, 7, "torus:3x3", model=model)
    except LabkitError:  # a model of a file that is not here
        return "unknown"
    return f"7 ranks on torus:3x3 in {run.makespan_s!r} s"


def read_baseline(path: Path) -> Baseline | None:
    """Read a baseline, or None."""
    try:
        if not path.exists():
            return None
        return _checked(Baseline(**json_of(text_of(path))))
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{path} is not a baseline of scaling tests ({error}); run pytest with --scaling-update",
            code="malformed-file",
        ) from None


def _checked(read: Baseline) -> Baseline:
    """Return a baseline of a file, if each part is of its kind."""
    texts: list[object] = [read.growth, read.model, read.parameter]
    values, made_with = cast("object", read.values), cast("object", read.made_with)
    if not all(isinstance(one, str) for one in texts) or not isinstance(made_with, dict):
        raise ValueError("growth, model and parameter are texts, made_with is a table")
    if not isinstance(values, dict) or not values:
        raise ValueError("values is a table of measurements")
    for at, value in values.items():
        float(at)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
            raise ValueError(f"the value at {at[:40]} must be a finite number, got {value!r:.40}")
    return read


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Write a baseline, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(asdict(baseline), indent=2, ensure_ascii=False) + "\n")


@dataclass
class ScalingFixture:
    """What the fixture `scaling` is: call it with the program.

    Attributes
    ----------
    settings : dict
        The marker's options.
    where : Path
        The baseline's file.
    name : str
        The test.
    is_update : bool
        Whether baselines are written.
    figures : Path or None
        The folder of figures.
    properties : list
        What the test reports.
    """

    settings: dict[str, Any]
    where: Path
    name: str
    is_update: bool
    figures: Path | None
    properties: list[tuple[str, object]]

    def __call__(self, program: Callable[..., object] | Study, **settings: object) -> Verdict | None:
        """Run the program at every number of ranks and keep the promise.

        Parameters
        ----------
        program : callable or Study
            ``program(comm, ...)``, or a study that was measured already.
        **settings
            As in the marker, and before it: ``expect``, ``ranks``, ``on``, ``metric``, ``phase``,
            ``deviation``, ``tolerance``, ``undecided`` (``"fail"`` or ``"xfail"``), ``slower`` (the factor of
            the baseline's measurements above which the test fails; None for never), and what `labkit.sweep`
            takes, such as ``noise``.

        Returns
        -------
        Verdict or None
            None where a baseline was written.
        """
        __tracebackhide__ = True
        chosen = {**self.settings, **settings}
        if (undecided := chosen.get("undecided", "fail")) not in _UNDECIDED:
            pytest.fail(f"undecided must be one of: fail, xfail; got {undecided!r}", pytrace=False)
        limit = _factor(chosen.get("slower", _SLOWER))
        study = self._measured(program, chosen)
        judging = {name: chosen[name] for name in _JUDGING if name in chosen}
        note = ""
        expect, baseline = chosen.get("expect"), None
        if expect is None:
            baseline = self._baseline(study, judging)
            if baseline is None:
                return None
            expect, note = baseline.growth, self._changes(baseline, study)
            judging.setdefault("deviation", "log^0.5 p")
        verdict = study.expect_curve(expect, **judging)
        self.properties += [
            ("scaling_match", verdict.match),
            ("scaling_expected", str(verdict.expectation.term)),
            ("scaling_growth", str(verdict.model.term) if verdict.model else ""),
            ("scaling_reading", verdict.reading),
        ]
        slower = "" if baseline is None else self._slower(baseline, verdict, limit)
        if slower and "slower" not in chosen and _is_by_the_clock(study, verdict):
            warnings.warn(f"{self.name}: {slower}", StudyWarning, stacklevel=2)  # another host, or a busy one
            slower = ""
        if verdict.match == "undecided" and undecided == "xfail" and not slower:
            pytest.xfail(verdict.reading)
        if slower or not verdict:
            pytest.fail(self._message(verdict, note, slower), pytrace=False)
        return verdict

    def _slower(self, baseline: Baseline, verdict: Verdict, limit: float) -> str:
        """Return as text how much larger the measurements are than the baseline's; empty within the limit."""
        if verdict.samples is None or limit == math.inf:
            return ""
        now = by_place(verdict.samples.x, verdict.samples.aggregate(verdict.aggregate))
        found = baseline.factor(now)
        self.properties.append(("scaling_factor", f"{found[0]:.3g}" if found else ""))
        if found is None:
            return (
                f"the baseline has no value at {baseline.parameter} = {', '.join(now)}, so nothing can be "
                "compared; run pytest with --scaling-update"
            )
        factor, where = found
        if factor <= limit:
            return ""
        what = verdict.phase or verdict.metric or "the measurement"
        return f"{what} is {factor:.3g} times the baseline's {where}; at most {limit:g} times is allowed"

    def _measured(self, program: Callable[..., object] | Study, chosen: Mapping[str, Any]) -> Study:
        from labkit.study import Study, sweep

        if isinstance(program, Study):
            return program
        if "ranks" not in chosen:
            pytest.fail(
                "a scaling test needs ranks: @pytest.mark.scaling(ranks=[4, 8, 16, 32, 64], ...)",
                pytrace=False,
            )
        ours = (*_JUDGING, *_OWN)
        rest = {name: value for name, value in chosen.items() if name not in ours}
        study = sweep(program, rest.pop("ranks"), rest.pop("on", "star"), progress=False, **rest)
        if study.failures:
            first = study.failures[0]
            pytest.fail(f"the program failed at {first.get('point')}: {first.get('error')}", pytrace=False)
        return study

    def _baseline(self, study: Study, judging: Mapping[str, Any]) -> Baseline | None:
        """Return the baseline to keep; None when it was written just now."""
        fitting = {name: judging[name] for name in ("metric", "phase", "aggregate") if name in judging}
        if self.is_update:
            model = study.fit(**fitting)
            write_baseline(Baseline.of(model, study), self.where)
            self.properties.append(("scaling_baseline", str(model.term)))
            return None
        baseline = read_baseline(self.where)
        if baseline is None:
            model = study.fit(**fitting)
            pytest.fail(
                f"{self.name} has no expectation and no baseline yet. It grows as {model.term}.\n"
                f"To keep that as its baseline, run pytest with --scaling-update, and commit\n{self.where}",
                pytrace=False,
            )
        return baseline

    def _changes(self, baseline: Baseline, study: Study) -> str:
        """Return a note on the baseline, and on what has changed since."""
        changed = baseline.changed(study)
        note = f"the baseline is {baseline.growth} ({baseline.model}), from {self.where}"
        if changed:
            note += (
                f"; since then {'; '.join(changed)}: the change may lie there and not in the program. "
                "Look, then run --scaling-update"
            )
        return note

    def _message(self, verdict: Verdict, note: str, slower: str = "") -> str:
        """Return the message of a failed test: the sentence, the numbers, and where the figure is."""
        from labkit.text.html import quantity

        lines = [f"{self.name}: {slower or verdict.reading}", ""]
        if verdict.samples is not None:
            points = verdict.samples.aggregate(verdict.aggregate)
            expected = verdict.expectation(verdict.samples.x)
            name = verdict.phase or verdict.metric or "measured"
            lines.append(f"{verdict.expectation.parameter:>8}  {name:>16}  {'growth':>8}  {'allowed':>8}")
            before: tuple[float, float] | None = None
            for x, y, e in zip(verdict.samples.x, points, expected, strict=True):
                steps = f"{y / before[0]:8.2f}  {e / before[1]:8.2f}" if before and before[1] else ""
                lines.append(f"{x:8g}  {quantity(float(y), verdict.unit):>16}  {steps}".rstrip())
                before = float(y), float(e)
            lines.append("(growth: from the line above; allowed: what the expectation would grow by)")
        if note:
            lines += ["", note]
        figure = self._figure(verdict)
        if figure is not None:
            lines += ["", f"figure: {figure}"]
        return "\n".join([*lines, "", str(verdict)])

    def _figure(self, verdict: Verdict) -> Path | None:
        if self.figures is None or verdict.model is None:
            return None
        from labkit import plot

        self.figures.mkdir(parents=True, exist_ok=True)
        path = self.figures / f"{_file_name(self.name)}.html"
        try:
            plot.page(self.name, [plot.scaling(verdict), verdict], path)
        except OSError:
            return None
        return path


def _factor(value: Any) -> float:
    """Read `slower`; None and "none" are no limit."""
    try:
        limit = math.inf if str(value).lower() == "none" else float(value)
    except ValueError:
        limit = math.nan
    if not limit >= 1:
        pytest.fail(f"slower must be a factor of at least 1, or 'none'; got {value!r}", pytrace=False)
    return limit


def _is_by_the_clock(study: Study, verdict: Verdict) -> bool:
    """Whether the verdict is about times of a real machine, which other hosts do not repeat."""
    return verdict.unit == "s" and not study.data["model"].astype(bool).all()


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("_")


@pytest.fixture
def scaling(request: pytest.FixtureRequest) -> ScalingFixture:
    """Return the call that keeps a scaling promise: ``scaling(program)``; see the marker `scaling`."""
    marker = request.node.get_closest_marker("scaling")
    config = request.config
    configured = {
        name: config.getoption(f"--scaling-{name}") or config.getini(f"scaling_{name}")
        for name in ("undecided", "slower")
    }
    settings: dict[str, object] = {name: value for name, value in configured.items() if value}
    settings |= marker.kwargs if marker else {}
    if marker and marker.args:
        settings.setdefault("expect", marker.args[0])
    figures = request.config.getoption("--scaling-figures")
    name = request.node.name
    return ScalingFixture(
        settings,
        request.path.parent / "scaling" / f"{_file_name(f'{request.path.stem}.{name}')}.json",
        name,
        bool(request.config.getoption("--scaling-update")),
        None if figures == "none" else Path(request.config.rootpath) / figures,
        request.node.user_properties,
    )
