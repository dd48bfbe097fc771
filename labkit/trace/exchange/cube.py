"""Cube's file (.cubex): a profile that Cube's viewer, pycubexr and Extra-P read."""

from __future__ import annotations

import io
import struct
import tarfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from labkit.trace.formats.text import open_out
from labkit.trace.report import Report

__all__ = ["write_cube"]

_UNITS = {"s": "sec", "B": "bytes", "": "occ"}


def write_cube(path: Path, report: Report) -> list[Path]:
    """Write a report as a Cube: metrics, call tree, and machine, hosts and ranks as its system.

    Values are exclusive in the call tree; a metric holds its parts, as in Cube. Derived metrics are left out:
    what they are made of is there. A report whose sums are below zero, a difference, is written as well.

    References
    ----------
    .. [1] P. Saviankou, M. Knobloch, A. Visser, B. Mohr: Cube v4: from performance report explorer to
       performance analysis tool. Procedia Computer Science 51, 2015. doi:10.1016/j.procs.2015.05.320
    """
    plain = [metric for metric in report.metrics if metric.expression is None]
    number = {metric.name: at for at, metric in enumerate(plain)}
    rows = len(report.paths)
    index = b"CUBEX.INDEX" + struct.pack("<ihBi", 1, 0, 1, rows) + np.arange(rows, dtype="<i4").tobytes()
    with open_out(path) as file, tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        _add(archive, "anchor.xml", _anchor(report, plain, number))
        for metric in plain:
            values = np.ascontiguousarray(report.values[metric.name], "<f8")
            _add(archive, f"{number[metric.name]}.data", b"CUBEX.DATA" + values.tobytes())
            _add(archive, f"{number[metric.name]}.index", index)
    return [path]


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a member; it has no date, so that the same report is the same file."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644
    archive.addfile(member, io.BytesIO(data))


def _anchor(report: Report, plain: list[Any], number: dict[str, int]) -> bytes:
    root = ElementTree.Element("cube", version="4.4")
    facts = {"Creator": "labkit", "Title": report.title, "makespan_s": repr(report.makespan_s)}
    for key, value in facts.items():
        ElementTree.SubElement(root, "attr", key=key, value=value)
    ElementTree.SubElement(ElementTree.SubElement(root, "doc"), "mirrors")
    metrics = ElementTree.SubElement(root, "metrics", title="Metric tree")
    known: dict[str, Any] = {"": metrics}
    for metric in plain:
        facts = {
            "id": str(number[metric.name]),
            "type": "EXCLUSIVE",
            "convertible": "true",
            "cacheable": "true",
        }
        own = ElementTree.SubElement(known[metric.above], "metric", facts)
        known[metric.name] = own
        _texts(
            own, disp_name=metric.label, uniq_name=metric.name, dtype="DOUBLE",
            uom=_UNITS.get(metric.unit, metric.unit), val="", url="", descr=metric.meaning,
        )  # fmt: skip
    _program(report, ElementTree.SubElement(root, "program", title="Call tree"))
    _system(report, ElementTree.SubElement(root, "system", title="System tree"))
    text: bytes = ElementTree.tostring(root, encoding="utf-8")
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + text


def _texts(above: Any, **texts: str) -> None:
    for name, text in texts.items():
        ElementTree.SubElement(above, name).text = _clean(text)


def _clean(text: str) -> str:
    """Leave out what XML cannot hold."""
    return "".join(
        letter for letter in text if letter in "\t\n" or " " <= letter < "\ud800" or letter > "\udfff"
    )


def _program(report: Report, program: Any) -> None:
    """Write a region for each name, and the call tree."""
    regions: dict[tuple[str, str], int] = {}
    calls: dict[tuple[str, str], bool] = {}
    for path in report.paths:
        regions.setdefault((path.label, path.place), len(regions))
        calls[path.label, path.place] = bool(path.call)
    for (label, place), at in regions.items():
        file, _, line = place.rsplit(", ", 1)[-1].rpartition(":")
        begin = line if line.isdigit() else "-1"
        region = ElementTree.SubElement(
            program, "region", id=str(at), mod=_clean(file), begin=begin, end=begin
        )
        paradigm, role = ("mpi", "function") if calls[label, place] else ("user", "region")
        _texts(region, name=label, mangled_name=label, paradigm=paradigm, role=role, url="", descr=place)
    nodes: list[Any] = []
    for row, path in enumerate(report.paths):
        above = nodes[path.above] if path.above >= 0 else program
        callee = str(regions[path.label, path.place])
        nodes.append(ElementTree.SubElement(above, "cnode", id=str(row), calleeId=callee))


def _system(report: Report, system: Any) -> None:
    """Write the machine, its hosts, and on each the ranks; without hosts all ranks are on one."""
    machine = ElementTree.SubElement(system, "systemtreenode", {"Id": "0", "class": "machine"})
    _texts(machine, name=getattr(report.machine, "name", "") or "machine", **{"class": "machine"})
    hosts = report.hosts or (0,) * report.ranks
    known: dict[int, Any] = {}
    for host in hosts:
        if host not in known:
            node = ElementTree.SubElement(
                machine, "systemtreenode", {"Id": str(len(known) + 1), "class": "node"}
            )
            _texts(node, name=f"host {host}" if report.hosts else "hosts", **{"class": "node"})
            known[host] = node
    for rank, host in enumerate(hosts):
        group = ElementTree.SubElement(known[host], "locationgroup", Id=str(rank))
        _texts(group, name=f"rank {rank}", rank=str(rank), type="process")
        location = ElementTree.SubElement(group, "location", Id=str(rank))
        _texts(location, name=f"rank {rank}", rank="0", type="thread")
