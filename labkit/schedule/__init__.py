"""Collective algorithms as data: one description, many readers.

A schedule says, rank by rank, which messages are posted, what is waited for, and which blocks are
copied or combined in which order. It can be proved complete (`check`), run by the simulator without
Python ranks (`labkit.sim.schedules`), executed over any communicator (`execute`), costed (`count`) and
printed (`Schedule.describe`).
"""

from __future__ import annotations

from labkit.schedule.check import Counterexample, Proof, check, prove
from labkit.schedule.count import count, predict
from labkit.schedule.execute import execute
from labkit.schedule.group import Group
from labkit.schedule.problem import PROBLEMS, Problem
from labkit.schedule.schedule import Buffer, Generator, Schedule, Temporary, build
from labkit.schedule.step import ALL, Column, Kind, Op, Section, Step, block, block_indices, blocks, whole

__all__ = [
    "ALL",
    "PROBLEMS",
    "Buffer",
    "Column",
    "Counterexample",
    "Generator",
    "Group",
    "Kind",
    "Op",
    "Problem",
    "Proof",
    "Schedule",
    "Section",
    "Step",
    "Temporary",
    "block",
    "block_indices",
    "blocks",
    "build",
    "check",
    "count",
    "execute",
    "predict",
    "prove",
    "whole",
]
