"""Data frames of Pipit and Hatchet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.errors import DataError
from labkit.trace.exchange.events import Events
from labkit.trace.formats.text import open_out

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.report import Report

__all__ = ["hatchet_frame", "pipit_frame", "write_pipit"]


def pipit_frame(events: Events) -> pd.DataFrame:
    """Return the events as Pipit has them: what ``pipit.Trace(None, frame)`` takes.

    Returns
    -------
    pandas.DataFrame
        By time: Timestamp (ns), Event Type (Enter, Leave, Instant), Name, Process (the rank), Attributes: of
        ``MpiSend`` and ``MpiRecv`` a mapping as Pipit's reader of OTF2 gives it, receiver or sender, msg_tag
        and msg_length in bytes; else None. ``frame.attrs`` says what was left out.
    """
    import pandas as pd

    times, parts, what, which, rank = events.sequence()
    names = np.array([*events.names, "MpiSend", "MpiRecv"], object)
    moves, sends, receives = what < 2, what == 2, what == 3
    number = np.full(len(what), len(events.names))
    number[moves] = events.name[which[moves]]
    number[receives] += 1
    attributes = np.full(len(what), None, object)
    for side, other, mask in (("receiver", events.destination, sends), ("sender", events.source, receives)):
        rows = which[mask]
        columns = (column[rows].tolist() for column in (other, events.tag, events.bytes))
        attributes[mask] = [
            {side: peer, "msg_tag": tag, "msg_length": size} for peer, tag, size in zip(*columns, strict=True)
        ]
    types = np.minimum(what, 2).astype(np.int8)
    frame = pd.DataFrame({
        "Timestamp (ns)": times + parts * 1e-3,
        "Event Type": pd.Categorical.from_codes(types, pd.Index(["Enter", "Leave", "Instant"])),
        "Name": pd.Categorical(names[number]),
        "Process": pd.Categorical(rank),
        "Attributes": attributes,
    })  # fmt: skip
    frame.attrs.update(events.facts())
    return frame


def write_pipit(path: Path, events: Events) -> list[Path]:
    """Write begins and ends as the CSV that ``pipit.Trace.from_csv`` reads.

    It keeps no messages: its columns are time, kind, name and rank. Nor has it a place for what was left out.
    """
    frame = pipit_frame(events)
    frame = frame[frame["Event Type"] != "Instant"].drop(columns="Attributes")
    with open_out(path) as file:
        file.write(frame.to_csv(index=False).encode())
    return [path]


def hatchet_frame(report: Report) -> Any:
    """Return the profile as Hatchet's ``GraphFrame``: its rows are call paths and ranks.

    Columns are the metrics of the report: ``time`` and the others are exclusive, ``time (inc)`` and its like
    inclusive.

    Raises
    ------
    DataError
        Hatchet is not installed.
    """
    try:
        from hatchet import GraphFrame
        from hatchet.frame import Frame
        from hatchet.graph import Graph
        from hatchet.node import Node
    except ImportError as error:
        raise DataError(f"Hatchet's frame needs Hatchet ({error}): pip install llnl-hatchet") from None
    import pandas as pd

    nodes: list[Any] = []
    for path in report.paths:
        above = nodes[path.above] if path.above >= 0 else None
        kind = "region" if path.place == "" else "function"
        node = Node(Frame({"name": path.label, "type": kind}), above)
        if above is not None:
            above.add_child(node)
        nodes.append(node)
    graph = Graph(nodes[:1])
    graph.enumerate_traverse()
    ranks = report.ranks
    index = pd.MultiIndex.from_product([nodes, range(ranks)], names=["node", "rank"])
    columns: dict[str, Any] = {"name": np.repeat([path.label for path in report.paths], ranks)}
    for metric in report.metrics:
        columns[metric.name] = report.exclusive(metric.name).ravel()
        columns[f"{metric.name} (inc)"] = report.inclusive(metric.name).ravel()
    frame = pd.DataFrame(columns, index=index).sort_index()
    exclusive = [metric.name for metric in report.metrics]
    return GraphFrame(graph, frame, exclusive, [f"{name} (inc)" for name in exclusive], default_metric="time")
