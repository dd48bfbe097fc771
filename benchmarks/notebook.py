"""The waits of a notebook's user: ``import labkit``, the first ``%%spmd`` cell, and every one after it.

A real Jupyter kernel is started and driven as JupyterLab does it: a cell's time is from sending it until the
kernel is idle and everything it shows has arrived. Columns: median, least and largest wall-clock time, and
the processor time that the kernel spent (median), all in milliseconds. What is promised: import below 1 s;
64 ranks on a star below 1 s after the first cell.

    python benchmarks/notebook.py [--ranks 64] [--cells 20]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

CELL = """%%spmd -n {ranks} --on star:{ranks}
right = comm.sendrecv(rank, (rank + 1) % size, source=(rank - 1) % size)
print("got", right)
comm.allreduce(rank)"""


def imports(times: int) -> list[tuple[float, float]]:
    """Time fresh interpreters that import labkit, less those that import nothing: wall and processor, ms."""
    found = []
    for _ in range(times):
        empty, full = (_interpreter(code) for code in ("pass", "import labkit"))
        found.append(tuple(max(b - a, 0.0) for a, b in zip(empty, full, strict=True)))
    return found  # type: ignore[return-value]


def _interpreter(code: str) -> tuple[float, float]:
    begin, cpu = time.perf_counter(), _children_s()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - begin) * 1e3, (_children_s() - cpu) * 1e3


def _children_s() -> float:
    spent = os.times()
    return spent.children_user + spent.children_system


class Kernel:
    """A kernel of this interpreter."""

    def __init__(self) -> None:
        from jupyter_client.kernelspec import KernelSpec
        from jupyter_client.manager import KernelManager

        self.manager = KernelManager()
        self.manager._kernel_spec = KernelSpec(
            argv=[sys.executable, "-Wignore", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="benchmark", language="python",
        )  # fmt: skip
        self.manager.start_kernel(stderr=subprocess.DEVNULL)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)

    def time(self, code: str) -> tuple[float, float]:
        """Run a cell; return its wall-clock and its processor time in milliseconds."""
        cpu = self._cpu_s()
        begin = time.perf_counter()
        reply = self.client.execute_interactive(code, timeout=120, output_hook=lambda message: None)
        wall = (time.perf_counter() - begin) * 1e3
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"the cell failed: {reply['content']}")
        return wall, (self._cpu_s() - cpu) * 1e3

    def _cpu_s(self) -> float:
        """Ask the kernel for its processor time; the question itself costs about a millisecond."""
        said: list[Any] = []
        self.client.execute_interactive(
            "import time; print(time.process_time())", silent=False, store_history=False, timeout=60,
            output_hook=lambda message: said.append(message["content"].get("text", "")),
        )  # fmt: skip
        return float("".join(said))

    def stop(self) -> None:
        """End it."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


def show(name: str, found: list[tuple[float, float]]) -> None:
    """Print one line."""
    walls, cpus = [wall for wall, _ in found], [cpu for _, cpu in found]
    print(
        f"{name:44}{statistics.median(walls):10.0f}{min(walls):10.0f}{max(walls):10.0f}"
        f"{statistics.median(cpus):10.0f}",
        flush=True,
    )


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--cells", type=int, default=20)
    options = parser.parse_args()
    if importlib.util.find_spec("ipykernel") is None or importlib.util.find_spec("jupyter_client") is None:
        print("skipped: no Jupyter kernel here; install labkit[lab]")
        return 0
    load = f"{os.getloadavg()[0]:.1f} processes ready to run on {os.cpu_count()} cores"
    print(f"milliseconds (load: {load}){'':6}median     least   largest processor")
    show("import labkit", imports(5))
    cell = CELL.format(ranks=options.ranks)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"JUPYTER_RUNTIME_DIR": folder, "IPYTHONDIR": folder}
        kernel = Kernel()
        try:
            show("%load_ext labkit", [kernel.time("%load_ext labkit")])
            show(f"the first %%spmd, {options.ranks} ranks on a star", [kernel.time(cell)])
            show(f"{options.cells} cells after it", [kernel.time(cell) for _ in range(options.cells)])
        finally:
            kernel.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
