"""Measure the node-local kernels on this machine and write the coefficients as TOML.

Run it on an idle machine::

    python -m labkit.local.calibrate --out datasets/calibrations/NAME.toml
    python -m labkit.local.calibrate --pack default --out datasets/calibrations/packing.toml

The second one measures only what gathering and scattering data with gaps costs, and takes all else from the
calibration that it names: runs with the new file charge packing.

Every kernel is timed on random codes over a grid of sizes. A cell is the least of its samples, each long
enough for the clock and taken in several rounds over the grid, so that other work on the machine, which only
ever adds time, disturbs little. The coefficients are a non-negative least-squares fit of relative errors, and
the largest relative error over the grid is written with them: it bounds the error of the formula.
"""

from __future__ import annotations

import argparse
import datetime
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from labkit.local import work
from labkit.local.costs import PACKING, REFERENCE_FLOPS_PER_S, Cost, KernelCosts, find_calibration
from labkit.local.grid import jobs, packing_jobs
from labkit.text.files import replace_file

__all__ = ["fit_cost", "main", "measure_kernels", "measure_packing", "to_toml"]

_DESCRIBED = {PACKING[0]: "n bytes of data with gaps, an entry per piece of consecutive bytes"}

#: (items, log_of, entries, seconds)
Cell = tuple[int, int, int, float]


def _seconds_per_call(job: Callable[[], object], samples: int, sample_s: float) -> float:
    """Return the least time of one call among the samples, in seconds."""
    job()
    begin = time.perf_counter()
    job()
    calls = max(1, round(sample_s / max(time.perf_counter() - begin, 1e-7)))
    times = []
    for _ in range(samples):
        begin = time.perf_counter()
        for _ in range(calls):
            job()
        times.append((time.perf_counter() - begin) / calls)
    return min(times)


def fit_cost(cells: list[Cell]) -> Cost:
    """Fit ``call_s + items (item_s + item_log_s log2(log_of)) + entries entry_s`` to measurements."""
    items, log_of, entries, seconds = (np.array(column, float) for column in zip(*cells, strict=True))
    terms = np.stack([np.ones_like(items), items, items * np.log2(log_of), entries], axis=1)
    scaled = terms / seconds[:, None]
    norms = np.linalg.norm(scaled, axis=0)
    norms[norms == 0] = 1  # a kernel without a logarithm
    coefficients = nnls(scaled / norms, np.ones_like(seconds))[0] / norms
    error = float(np.max(np.abs(terms @ coefficients / seconds - 1)))
    call, item, item_log, entry = (float(c) for c in coefficients)
    return Cost(call, item, item_log, entry, error)


def measure_kernels(samples: int = 3, rounds: int = 3, sample_s: float = 1e-3) -> dict[tuple[str, int], Cost]:
    """Measure every kernel for every item size on this machine.

    `samples`: Samples per cell and round, of which the least is kept.
    `rounds`: How many times the cells of a kernel are gone through.
    `sample_s`: Least length of a sample, in seconds.
    """
    costs = {}
    for kernel in work.KERNELS:
        for itemsize in (2, 4, 8) if kernel == "code" else (1, 2, 4, 8):
            grid = list(jobs(kernel, itemsize))
            times = [[_seconds_per_call(job.call, samples, 1e-3) for job in grid] for _ in range(rounds)]
            least = map(min, zip(*times, strict=True))
            cells = [(job.items, job.log_of, job.entries, s) for job, s in zip(grid, least, strict=True)]
            costs[kernel, itemsize] = fit_cost(cells)
    return costs


def measure_packing(samples: int, rounds: int) -> Cost:
    """Measure what gathering data with gaps costs, or scattering them: the mean of both. As `measure`."""
    grid = list(packing_jobs())
    times = [[_seconds_per_call(job.call, samples, 1e-3) for job in grid] for _ in range(rounds)]
    least = map(min, zip(*times, strict=True))
    return fit_cost([(job.items, job.log_of, job.entries, s / 2) for job, s in zip(grid, least, strict=True)])


def describe_machine() -> dict[str, str]:
    """Describe this machine and the software whose speed was measured."""
    cpu = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    simd = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return {
        "cpu": cpu,
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "simd": simd[-1] if simd else "baseline",
        "date": datetime.date.today().isoformat(),
        "command": "python -m labkit.local.calibrate",
    }


def to_toml(calibration: KernelCosts, base: str = "") -> str:
    """Write a calibration as the TOML text that `KernelCosts.read` reads; with a base, what it adds."""
    lines = [
        "# Node-local costs:",
        "#   seconds = call_s + items * (item_s + item_log_s * log2(log_of)) + entries * entry_s",
        "# Measured; do not edit manually. largest_error is the formula's largest relative error.",
        *([f'base = "{base}"'] if base else []),
        "",
        "[machine]",
        *(f'{key} = "{value}"' for key, value in calibration.machine.items()),
    ]
    for (kernel, itemsize), cost in calibration.costs.items():
        lines += [
            "",
            f"[kernels.{kernel}.{itemsize}]  # {_DESCRIBED.get(kernel) or work.KERNELS[kernel]}",
            f"call_s = {cost.call_s:.4e}",
            f"item_s = {cost.item_s:.4e}",
            f"item_log_s = {cost.item_log_s:.4e}",
            f"entry_s = {cost.entry_s:.4e}",
            f"largest_error = {math.ceil(cost.largest_error * 100) / 100:.2f}",
        ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m labkit.local.calibrate", description=__doc__)
    parser.add_argument("--out", type=Path, help="output file (default: standard output)")
    parser.add_argument("--samples", type=int, default=3, help="samples per cell and round (default: 3)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds over the grid (default: 3)")
    parser.add_argument(
        "--pack", metavar="BASE", help="measure only packing; take the rest from this calibration"
    )
    options = parser.parse_args(arguments)
    if options.samples < 1 or options.rounds < 1:
        parser.error(f"--samples and --rounds must be at least 1, got {options.samples} and {options.rounds}")
    machine = describe_machine()
    if options.pack is None:
        costs = measure_kernels(options.samples, options.rounds)
        text = to_toml(KernelCosts("measured", machine, REFERENCE_FLOPS_PER_S, costs))
    else:
        find_calibration(options.pack)
        machine["command"] += f" --pack {options.pack}"
        costs = {PACKING: measure_packing(options.samples, options.rounds)}
        text = to_toml(KernelCosts("measured", machine, REFERENCE_FLOPS_PER_S, costs), options.pack)
    if options.out is None:
        sys.stdout.write(text)
    else:
        try:
            replace_file(options.out, text)
        except OSError as error:  # what was measured takes minutes
            sys.stdout.write(text)
            parser.exit(1, f"{options.out} cannot be written: {error.strerror}; its text is printed\n")
        sys.stderr.write(f"wrote {options.out}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
