"""Traces of other tools as runs."""

from __future__ import annotations

import os
from pathlib import Path

from labkit.errors import DataError
from labkit.result.run import Run, phase_frame
from labkit.trace.exchange.otf2_reader import read_otf2
from labkit.trace.recorder.timeline import trace_of
from labkit.trace.trace import by_entry

__all__ = ["read_trace"]


def read_trace(path: str | os.PathLike[str]) -> Run:
    """Read what another tool has recorded: wait states, delay costs, profile, figures as of a run here.

    Parameters
    ----------
    path : path
        An OTF2 archive, as Score-P writes it: ``traces.otf2``, or the folder that it is in. Needs the package
        ``otf2`` (labkit's extra of that name).

    Returns
    -------
    Run
        Its regions outside MPI are phases. Collectives are calls, as those of a real run; nonblocking ones
        are calls that are never waited for. It cannot be run again.

    Raises
    ------
    DataError
        No archive, or it cannot be read.

    Notes
    -----
    Of the other formats that labkit writes there is no library that reads them and is looked after: Paje and
    Paraver have readers in C++ inside their own tools, and SST's ``dumpi2ascii`` prints DUMPI as text that
    nobody has put down as a format. Time-independent traces and GOAL are read by `labkit.replay`.

    References
    ----------
    .. [1] D. Eschweiler, M. Wagner, M. Geimer, A. Knüpfer, W. E. Nagel, F. Wolf: Open Trace Format 2. ParCo
       2011. doi:10.3233/978-1-61499-041-3-481
    """
    target = Path(path)
    if os.path.isfile(target) and target.suffix != ".otf2":
        raise DataError(
            f"traces are read as OTF2 archives, whose anchor is traces.otf2; got {str(target)!r}",
            code="unknown-format",
        )
    found = read_otf2(target)
    folder = target if os.path.isdir(target) else target.absolute().parent
    phases = phase_frame(by_entry(found.phases))
    trace, said = trace_of(found.timelines, found.clocks, found.spans, phases)
    return Run(
        folder.stem,
        len(found.spans),
        found.machine,
        results=[None] * len(found.spans),
        makespan_s=max(end for _, end in found.spans),
        phases=phases,
        output=[""] * len(found.spans),
        trace=trace,
        notes=[f"trace: {one}" for one in (*found.notes, *said)],
    )
