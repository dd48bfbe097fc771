"""Batch jobs on a cluster under Slurm: submit, wait, collect, and find your jobs again."""

from __future__ import annotations

from labkit.real.slurm.options import Slurm, slurm

__all__ = ["Slurm", "slurm"]
