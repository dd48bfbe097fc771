"""Readers of exported traces, written from the formats' descriptions: each refuses what breaks the format."""

from __future__ import annotations

import json
import re
import struct
import tarfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np


def read_perfetto(path: Path) -> dict[str, Any]:
    """Trace events: slices of a thread lie in each other, every flow begins and ends within one."""
    whole = json.loads(path.read_text())
    slices: dict[int, list[tuple[float, float, dict[str, Any]]]] = defaultdict(list)
    flows: dict[str, dict[int, dict[str, Any]]] = {"s": {}, "f": {}}
    counters: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for event in whole["traceEvents"]:
        kind = event["ph"]
        if kind == "X":
            assert event["dur"] >= 0
            slices[event["tid"]].append((event["ts"], event["dur"], event))
        elif kind in "sf":
            assert event["id"] not in flows[kind]
            flows[kind][event["id"]] = event
        elif kind == "C":
            counters[event["name"]].append((event["ts"], event["args"]["value"]))
        else:
            assert kind == "M"
            assert {"name", "pid", "tid", "args"} <= event.keys()
    for of_thread in slices.values():  # in nanoseconds, as Perfetto keeps them
        spans = [(round(1000 * ts), round(1000 * ts) + round(1000 * dur)) for ts, dur, _ in of_thread]
        assert spans == sorted(spans, key=lambda span: span[0])
        open_ends: list[int] = []
        for begin, end in spans:
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], "slices overlap"
            open_ends.append(end)
    assert flows["s"].keys() == flows["f"].keys()
    for number, begin in flows["s"].items():
        assert begin["ts"] <= flows["f"][number]["ts"]
    return {"slices": slices, "flows": flows, "counters": counters, "facts": whole["otherData"]}


def read_paje(path: Path) -> dict[str, Any]:
    """Paje's text: fields as the header says, time that goes on, states as a stack, links with both ends."""
    kinds: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    current: list[tuple[str, str]] = []
    number = name = ""
    types: dict[str, str] = {}
    values: dict[str, str] = {}
    alive: set[str] = set()
    stacks: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    states: list[tuple[str, str, str, float, float]] = []
    open_links: dict[str, tuple[str, float]] = {}
    links: list[tuple[str, str, float, float]] = []
    now = 0.0
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith("%"):
            words = line[1:].split()
            if words[0] == "EventDef":
                name, number, current = words[1], words[2], []
            elif words[0] == "EndEventDef":
                kinds[number] = (name, current)
            else:
                assert words[1] in ("string", "date", "int", "double", "color", "hex")
                current.append((words[0], words[1]))
            continue
        words = [one[1:-1] if one.startswith('"') else one for one in re.findall(r'"[^"]*"|\S+', line)]
        kind, fields = kinds[words[0]]
        assert len(words) - 1 == len(fields), line
        event = {field: word for (field, _), word in zip(fields, words[1:], strict=True)}
        if "Time" in event:
            assert float(event["Time"]) >= now, line
            now = float(event["Time"])
        if kind.startswith("PajeDefine") and kind != "PajeDefineEntityValue":
            types[event["Alias"]] = kind
            assert event["Type"] == "0" or event["Type"] in types
        elif kind == "PajeDefineEntityValue":
            assert event["Type"] in types
            values[event["Alias"]] = event["Name"]
        elif kind == "PajeCreateContainer":
            assert event["Container"] in alive | {"0"}
            alive.add(event["Alias"])
        elif kind == "PajeDestroyContainer":
            alive.remove(event["Name"])
        elif kind == "PajePushState":
            assert event["Container"] in alive
            assert types[event["Type"]] == "PajeDefineStateType"
            stacks[event["Container"], event["Type"]].append((values[event["Value"]], now))
        elif kind == "PajePopState":
            value, begin = stacks[event["Container"], event["Type"]].pop()
            states.append((event["Container"], event["Type"], value, begin, now))
        elif kind == "PajeStartLink":
            assert event["Key"] not in open_links
            assert event["StartContainer"] in alive
            open_links[event["Key"]] = (event["StartContainer"], now)
        elif kind == "PajeEndLink":
            source, begin = open_links.pop(event["Key"])
            links.append((source, event["EndContainer"], begin, now))
    assert not any(stacks.values())
    assert not open_links
    assert not alive
    return {"states": states, "links": links}


_HEADER = re.compile(
    r"#Paraver \(\d\d/\d\d/\d{2,4} at \d\d:\d\d\):(\d+)_ns:(\d+)\(([\d,]+)\):1:(\d+)\(([\d:,]+)\),(\d+)"
)


def read_paraver(path: Path) -> dict[str, Any]:
    """Paraver's records: sorted, of the header's objects, with meanings in the .pcf; states fill the time."""
    lines = path.read_text().splitlines()
    found = _HEADER.fullmatch(lines[0])
    assert found, lines[0]
    end, nodes, tasks, comms = (int(found[group]) for group in (1, 2, 4, 6))
    cpus = [int(one) for one in found[3].split(",")]
    placed = [one.split(":") for one in found[5].split(",")]
    assert len(cpus) == nodes
    assert len(placed) == tasks
    first_cpu = np.concatenate([[1], np.cumsum(cpus) + 1])
    records: dict[str, list[list[int]]] = {"1": [], "2": [], "3": []}
    for line in lines[1 : 1 + comms]:
        assert line.startswith("c:1:")
    now = -1
    widths = {"1": 8, "3": 15}
    for line in lines[1 + comms :]:
        kind, *words = line.split(":")
        fields = [int(word) for word in words]
        assert kind == "2" or len(fields) == widths[kind] - 1, line
        assert kind != "2" or (len(fields) >= 7 and len(fields) % 2 == 1), line
        for cpu, app, task, thread in [fields[:4], *([fields[6:10]] if kind == "3" else [])]:
            assert app == thread == 1
            assert 1 <= task <= tasks
            node = int(placed[task - 1][1])
            assert first_cpu[node - 1] <= cpu < first_cpu[node], "a processor of another node"
        assert now <= fields[4] <= end, line
        now = fields[4]
        records[kind].append(fields)
    sections = _sections(path.with_suffix(".pcf").read_text())
    states = {row[6] for row in records["1"]}
    assert states <= sections["STATES"].keys()
    assert sections["STATES"].keys() == sections["STATES_COLOR"].keys()
    for fields in records["2"]:
        for what, value in zip(fields[5::2], fields[6::2], strict=True):
            meanings = sections["TYPES"][what]
            assert value in meanings or not meanings
    for task in range(1, tasks + 1):
        own = [row for row in records["1"] if row[2] == task]
        assert all(a[5] == b[4] for a, b in pairwise(own)), "states leave a gap"
    rows = path.with_suffix(".row").read_text().splitlines()
    for level, size in (("CPU", sum(cpus)), ("NODE", nodes), ("THREAD", tasks)):
        at = rows.index(f"LEVEL {level} SIZE {size}")
        assert all(rows[at + 1 : at + 1 + size])
    return {"records": records, "end": end, **sections}


def _sections(text: str) -> dict[str, dict[int, Any]]:
    found: dict[str, dict[int, Any]] = {"STATES": {}, "STATES_COLOR": {}, "TYPES": {}}
    section, own = "", [0]
    for line in text.splitlines():
        words = line.split(maxsplit=2 if section == "EVENT_TYPE" else 1)
        if not words or line.startswith("#"):
            section = "" if not words and section != "EVENT_TYPE" else section
        elif not line[0].isdigit():
            section = line.strip()
        elif section in found:
            found[section][int(words[0])] = words[1]
        elif section == "EVENT_TYPE":
            own = [int(words[1])]
            found["TYPES"][own[0]] = {}
        elif section == "VALUES":
            found["TYPES"][own[0]][int(words[0])] = words[1]
    return found


def read_cube(path: Path) -> dict[str, Any]:
    """A Cube: trees of the anchor, and the values of each metric by call path and location."""
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        data = {name: file.read() for name, file in files.items() if file is not None}
    root = ElementTree.fromstring(data["anchor.xml"])
    assert len(root.findall("program/cnode")) == 1
    assert len(root.findall("system/systemtreenode")) == 1
    nodes = list(root.iter("cnode"))
    assert [int(node.attrib["id"]) for node in nodes] == list(range(len(nodes)))
    regions = {one.attrib["id"]: one.findtext("name") for one in root.iter("region")}
    locations = len(list(root.iter("location")))
    values = {}
    for metric in root.iter("metric"):
        index, raw = (data[f"{metric.attrib['id']}.{kind}"] for kind in ("index", "data"))
        assert index.startswith(b"CUBEX.INDEX")
        assert raw.startswith(b"CUBEX.DATA")
        one, _, sparse, count = struct.unpack("<ihbi", index[11:22])
        assert (one, sparse, count) == (1, 1, len(nodes))
        assert np.frombuffer(index[22:], "<i4").tolist() == list(range(len(nodes)))
        table = np.frombuffer(raw[10:], "<f8").reshape(len(nodes), locations)
        values[metric.findtext("uniq_name")] = table
    return {"values": values, "paths": [regions[node.attrib["calleeId"]] for node in nodes]}
