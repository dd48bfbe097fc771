"""The pytest plugin: ``@pytest.mark.scaling`` and the fixture ``scaling``.

A test hands its program to the fixture; the marker says where it runs and what is promised::

    @pytest.mark.scaling(expect="log p", ranks=[4, 8, 16, 32, 64], on="star:64")
    def test_my_broadcast(scaling):
        scaling(my_broadcast)

Without ``expect`` the growth found first is the baseline, kept as JSON beside the test (``scaling/``), and
later runs must not grow faster. ``--scaling-update`` writes it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from labkit.scaling import Verdict
    from labkit.study import Study

__all__ = ["Scaling", "scaling"]

_JUDGING = ("metric", "phase", "deviation", "given", "space", "aggregate", "tolerance")
_OWN = ("expect", "is_strict", "measure_with")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--scaling-update`` and ``--scaling-figures``."""
    group = parser.getgroup("labkit", "scaling promises")
    group.addoption(
        "--scaling-update", action="store_true", help="write the baselines of scaling tests again"
    )
    group.addoption(
        "--scaling-figures", metavar="FOLDER", default=".labkit/scaling",
        help="where figures of failed scaling tests go (default: .labkit/scaling; 'none' for no figures)",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "scaling(expect, ranks, on, metric, phase, deviation, is_strict, **sweep): the growth that the "
        "program given to the fixture `scaling` keeps; without `expect` it must not grow faster than its "
        "baseline",
    )


@dataclass
class Scaling:
    """What the fixture `scaling` is: call it with the program.

    Attributes
    ----------
    settings : dict
        What the marker says.
    where : Path
        The baseline's file.
    name : str
        The test.
    """

    settings: dict[str, Any]
    where: Path
    name: str
    is_update: bool
    figures: Path | None
    properties: list[tuple[str, object]]

    def __call__(self, program: Callable[..., Any] | Study, **settings: Any) -> Verdict | None:
        """Run the program at every number of ranks and keep the promise.

        Parameters
        ----------
        program : callable or Study
            ``program(comm, ...)``, or a study that was measured already.
        **settings
            As in the marker, and before it: ``expect``, ``ranks``, ``on``, ``metric``, ``phase``,
            ``deviation``, ``tolerance``, ``is_strict`` (fail where nothing can be decided), and what
            `labkit.sweep` takes.

        Returns
        -------
        Verdict or None
            None where a baseline was written.
        """
        __tracebackhide__ = True
        chosen = {**self.settings, **settings}
        study = self._measured(program, chosen)
        judging = {name: chosen[name] for name in _JUDGING if name in chosen}
        note = ""
        expect = chosen.get("expect")
        if expect is None:
            baseline = self._baseline(study, judging)
            if baseline is None:
                return None
            expect, note = baseline
            judging.setdefault("deviation", "log^0.5 p")
        verdict = study.expect(expect, **judging)
        self.properties += [
            ("scaling_match", verdict.match),
            ("scaling_expected", str(verdict.expectation.term)),
            ("scaling_growth", str(verdict.model.term) if verdict.model else ""),
            ("scaling_reading", verdict.reading),
        ]
        if verdict.match == "undecided" and not chosen.get("is_strict"):
            pytest.skip(verdict.reading)
        if not verdict:
            pytest.fail(self._message(verdict, note), pytrace=False)
        return verdict

    def _measured(self, program: Callable[..., Any] | Study, chosen: Mapping[str, Any]) -> Study:
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

    def _baseline(self, study: Study, judging: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the growth to keep and a note on what has changed; None when it was written just now."""
        from labkit.testing.baseline import Baseline, read_baseline, write_baseline

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
        changed = baseline.changed(study)
        note = f"the baseline is {baseline.growth} ({baseline.model}), from {self.where}"
        if changed:
            note += (
                f"; since then {'; '.join(changed)}: the change may lie there and not in the program. "
                "Look, then run --scaling-update"
            )
        return baseline.growth, note

    def _message(self, verdict: Verdict, note: str) -> str:
        """Return what a failed test says: the sentence, the numbers, and where the figure is."""
        from labkit.html import quantity

        lines = [f"{self.name}: {verdict.reading}", ""]
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


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("_")


@pytest.fixture
def scaling(request: pytest.FixtureRequest) -> Scaling:
    """Return the call that keeps a scaling promise: ``scaling(program)``; the marker `scaling` says which."""
    marker = request.node.get_closest_marker("scaling")
    settings = dict(marker.kwargs) if marker else {}
    if marker and marker.args:
        settings.setdefault("expect", marker.args[0])
    figures = request.config.getoption("--scaling-figures")
    name = request.node.name
    return Scaling(
        settings,
        request.path.parent / "scaling" / f"{_file_name(f'{request.path.stem}.{name}')}.json",
        name,
        bool(request.config.getoption("--scaling-update")),
        None if figures == "none" else Path(request.config.rootpath) / figures,
        request.node.user_properties,
    )
