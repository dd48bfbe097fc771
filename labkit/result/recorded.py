"""Methods of a recorded run: explanation, waits, profile, trials, files for other tools."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from labkit.errors import SuggestsNames
from labkit.trace.recorded_run import RecordedRun

if TYPE_CHECKING:  # a rank that only reports its times must not pay for importing pandas
    import pandas as pd

    from labkit.trace.explanation import Explanation
    from labkit.trace.misfits import Misfits
    from labkit.trace.report import Report
    from labkit.trace.score import Score
    from labkit.trace.waiting import Waiting
    from labkit.trace.waiting.what_if import WhatIf

__all__ = ["Recorded"]


class Recorded(RecordedRun, SuggestsNames):
    """The part of a `Run` that reads its trace; each method needs ``trace=True``.

    Ranks that a simulated run has spawned are analysed and exported with the others; on real MPI what they do
    is not recorded.
    """

    summary: list[dict[str, Any]] | None

    def _run(self) -> Self:
        """Return the run, with the ranks that it has spawned among its ranks."""
        if self.trace is None or len(self.trace.ends_s) <= self.ranks:
            return self
        whole = copy.copy(self)
        whole.ranks, whole.again = len(self.trace.ends_s), self.again
        return whole

    def explain(self) -> Explanation:
        """Say why a run took as long as it did: its critical path, and, in simulation, what held it.

        Returns
        -------
        labkit.trace.Explanation

        Raises
        ------
        DataError
            The run was not recorded (``trace=True``).
        """
        from labkit.trace.explanation import explain_run

        return explain_run(self._run())

    def waits(self) -> Waiting:
        """Find who waited for whom, as what kind of wait state, and what all waiting goes back to.

        Returns
        -------
        labkit.trace.waiting.Waiting
            Its tables `waits`, `delays`, `paths`, `totals` and `critical`; `severity`, `causes` and `balance`
            sum them up; shown, it is a page of prose.

        Raises
        ------
        DataError
            The run was not recorded (``trace=True``).
        """
        from labkit.trace.waiting import find_waiting

        return find_waiting(self._run())

    def delays(self) -> pd.DataFrame:
        """Say which rank's which phase and call made others wait for how long, the largest cost first.

        Returns
        -------
        pandas.DataFrame
            See `labkit.trace.waiting.Waiting.causes`.

        Raises
        ------
        DataError
            The run was not recorded (``trace=True``).
        """
        return self.waits().causes()

    def profile(self) -> pd.DataFrame:
        """Sum each rank's time, visits and messages up by call path: a phase in its phases, and a call there.

        Returns
        -------
        pandas.DataFrame
            See `labkit.trace.waiting.profile.profile_of`; of a run with ``summary=True`` instead of a trace
            `labkit.trace.summary.summary_frame`.

        Raises
        ------
        DataError
            The run has neither a trace (``trace=True``) nor a summary (``summary=True``).
        """
        run = self._run()
        if run.trace is None and run.summary is not None:
            from labkit.trace.summary import summary_frame

            return summary_frame(run.summary, run.counts)
        from labkit.trace.waiting.profile import profile_of

        return profile_of(run)

    def report(self) -> Report:
        """Return metrics by call path and rank, which can be subtracted from those of another run.

        Returns
        -------
        labkit.trace.report.Report
            Time with its wait states, messages, delay costs, the critical path. ``lk.explore.waits`` shows
            it; `labkit.trace.report` has `difference`, `mean` and `merge`. See `waits` for what is refused.
        """
        from labkit.trace.report import report_of

        return report_of(self._run())

    def score(self) -> Score:
        """Estimate what a trace of this program takes on real MPI, and say what is not worth recording.

        Returns
        -------
        labkit.trace.score.Score
            Bytes of buffer by phase and call, and phases to leave out (``leave_out=``). See `waits` for what
            is refused.
        """
        from labkit.trace.score import score_of

        return score_of(self._run())

    def export(
        self, path: str | os.PathLike[str], form: str | None = None, *, limit: int = 1_000_000
    ) -> list[Path]:
        """Write the run in the format of another tool.

        Parameters
        ----------
        path : path
            Its ending says the format: ``.json`` Perfetto's trace events, ``.paje`` (or ``.trace``) Paje,
            ``.prv`` Paraver (with ``.pcf`` and ``.row``), ``.cubex`` Cube, ``.otf2`` a folder in OTF2 (needs
            the package ``otf2``), ``.csv`` Pipit. Perfetto, Paje and Pipit may end in ``.gz``, too.
        form : str, optional
            The format, whatever the ending: perfetto, paje, paraver, cube, otf2, pipit.
        limit : int
            Events at most: of more, those are kept that last longest; a sentence says so, here and in the
            file. A Cube sums up and leaves nothing out.

        Returns
        -------
        list of Path
            The files that were written.

        Raises
        ------
        DataError
            The run was not recorded (``trace=True``), or the file cannot be written.
        """
        from labkit.trace.exchange import export

        return export(self._run(), path, form, limit)

    def frame(self, form: str, *, limit: int = 1_000_000) -> Any:
        """Return the run as a data frame of another library.

        Parameters
        ----------
        form : str
            ``"pipit"``: a pandas.DataFrame of events, for ``pipit.Trace(None, frame)``; ``"hatchet"``: a
            ``hatchet.GraphFrame`` of the profile (needs Hatchet).
        limit : int
            As in `export`.

        Raises
        ------
        DataError
            The run was not recorded, or Hatchet is not installed.
        """
        from labkit.trace.exchange import frame_of

        return frame_of(self._run(), form, limit)

    def against(self, predicted: Recorded) -> Misfits:
        """Hold this measured run against the predicted one of the same program, and say what is off.

        Parameters
        ----------
        predicted : Run
            On the machine as it should be, recorded; mostly a simulated one.

        Returns
        -------
        labkit.trace.misfits.Misfits
            Slow hosts, bad cables, stalls, wrong collectives, each with how likely it is by chance; how
            that is found, and what is refused: `labkit.trace.misfits.find_misfits`.
        """
        from labkit.trace.misfits import find_misfits

        return find_misfits(self._run(), predicted)

    def what_if(
        self,
        phase: str | None = None,
        factor: float | None = None,
        *,
        ranks: Iterable[int] | None = None,
        balanced: str | None = None,
        every_visit: bool = False,
        links: str | Iterable[str] | None = None,
        coll: Any = None,
        on: Any = None,
    ) -> WhatIf:
        """Simulate the run again with one thing changed, and say what that really wins.

        Parameters
        ----------
        phase : str, optional
            With `factor`: what is computed in this phase takes `factor` times as long.
        factor : float, optional
            Above 0; with `links`: how many times their bandwidth.
        ranks : iterable of int, optional
            With `phase`: on these ranks only.
        balanced : str, optional
            In this phase every rank that computes there computes as much as the mean of them.
        every_visit : bool
            With `balanced`: each time apart that ranks enter the phase, as where the load drifts.
        links : str or iterable of str, optional
            Kinds of links, as ``run.explain().links["kind"]`` names them.
        coll : mapping, path or Selector, optional
            Other algorithms of collectives, as in `labkit.run`.
        on : str or Platform, optional
            Another machine.

        Returns
        -------
        labkit.trace.waiting.what_if.WhatIf
            What was won, beside what the critical path promised.

        Raises
        ------
        DataError
            Not exactly one thing is changed, the phase or the links are not there, the run is not a simulated
            one that `labkit.run` made of a program, or it was not recorded.
        """
        from labkit.trace.waiting.what_if import try_it

        return try_it(self._run(), phase, factor, ranks, balanced, every_visit, links, coll, on)
