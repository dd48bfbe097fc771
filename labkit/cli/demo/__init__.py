"""The main job: parallel sorts on real MPI and on simulated machines, fitted and judged."""

from labkit.cli.demo.job import run_demo
from labkit.cli.demo.result import Demo

__all__ = ["Demo", "run_demo"]
