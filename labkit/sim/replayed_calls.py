"""The calls of a replay: the actions of its trace that stand for calls of MPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.phases import NO_PHASE
from labkit.trace.recorder.joints import join_calls

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["replayed_calls"]

#: actions that are not called as the method but for its capital
_NAMES = {"send_recv": "Sendrecv", "wait_all": "Waitall", "reducescatter": "Reduce_scatter"}


def replayed_calls(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return `Trace.calls` of a replay; their places in a program are not known."""
    import pandas as pd

    rank = np.asarray(columns["rank"], np.int64)
    order = np.argsort(rank, kind="stable")
    rank, begin = rank[order], np.asarray(columns["begin_s"], np.float64)[order]
    comm = np.asarray(columns["comm"], np.int64)[order]
    words = [_NAMES.get(name, name.capitalize()) for name in columns["names"]]
    phases = np.array([*columns["phases"], NO_PHASE], object)  # the last: of a call outside, -1
    return pd.DataFrame({
        "rank": rank, "call": np.array(words, object)[np.asarray(columns["action"])[order]],
        "bytes": np.asarray(columns["bytes"])[order], "begin_s": begin,
        "end_s": np.asarray(columns["end_s"])[order],
        "joint": join_calls({"rank": rank, "context": comm, "sequence": _numbered(rank, comm)}),
        "root": np.asarray(columns["root"], np.int64)[order],
        "position": np.asarray(columns["position"], np.int64)[order], "place": "",
        "phase": phases[np.asarray(columns["phase"])[order]], "algorithm": "",
    })  # fmt: skip


def _numbered(rank: NDArray[np.int64], comm: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the collectives of each rank in each communicator; -1 for other calls."""
    import pandas as pd

    number = pd.Series(comm).groupby([rank, comm]).cumcount().to_numpy(np.int64)
    return np.where(comm >= 0, number, -1)
