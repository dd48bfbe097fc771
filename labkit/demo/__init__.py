"""The main job: one parallel sort on two machines, its times fitted and its growth judged."""

from labkit.demo.job import Demo, run_demo
from labkit.demo.real import RealSort, sort_on_real_mpi
from labkit.demo.simulated import SimulatedSort, sort_on_simulated_cluster

__all__ = ["Demo", "RealSort", "SimulatedSort", "run_demo", "sort_on_real_mpi", "sort_on_simulated_cluster"]
