"""The main job: parallel sorts on real MPI and on simulated machines, fitted and judged."""

from labkit.cli.demo.command import configure, execute

__all__ = ["configure", "execute"]
