"""What a kernel of ``labkit lab`` has before its first cell."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from labkit.cli import lab
from labkit.cli.main import main

STARTUP = str(lab._CONFIG / "startup.py")


def test_spmd_before_the_import_says_what_to_type() -> None:
    manager = pytest.importorskip("jupyter_client.manager")
    pytest.importorskip("ipykernel")
    said: list[str] = []

    def run(code: str) -> str:
        said.clear()
        client.execute_interactive(
            code, output_hook=lambda one: said.append(str(one["content"])), timeout=300
        )
        return " ".join(said)

    environment = {**os.environ, "PYTHONSTARTUP": STARTUP}
    kernel, client = manager.start_new_kernel(startup_timeout=300, kernel_name="python3", env=environment)
    try:
        for early in ("%%spmd -n 2\nrank", "%spmd -n 2"):
            assert "run a cell `import labkit as lk` first" in run(early)
        assert "sys.modules: False" in run("import sys\nprint('sys.modules:', 'labkit' in sys.modules)")
        run("import labkit as lk")
        assert "2 ranks on star" in run("%%spmd -n 2\nrank")
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


def test_a_plain_python_is_left_alone() -> None:
    names = runpy.run_path(STARTUP)
    assert not [name for name in names if "spmd" in name]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], dict[str, str]]:
    """What starts ``labkit lab`` without a JupyterLab, and returns the environment that it would get."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    (tmp_path / "00_start.ipynb").write_text("{}")
    given: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda program, command, environment: given.append(environment))
    monkeypatch.setattr(os, "chdir", lambda folder: None)

    def start() -> dict[str, str]:
        main(["lab", "--in-place", "--notebooks", str(tmp_path)])
        return given[-1]

    return start


@pytest.mark.parametrize("own", [None, "/home/me/.pythonrc"])
def test_a_startup_file_of_ones_own_comes_first(
    monkeypatch: pytest.MonkeyPatch, started: Callable[[], dict[str, str]], own: str | None
) -> None:
    monkeypatch.delenv("PYTHONSTARTUP", raising=False)
    if own:
        monkeypatch.setenv("PYTHONSTARTUP", own)
    assert started()["PYTHONSTARTUP"] == (own or STARTUP)


def test_another_environment_that_is_active_does_not_reach_the_kernels(
    monkeypatch: pytest.MonkeyPatch, started: Callable[[], dict[str, str]], tmp_path: Path
) -> None:
    """IPython would put its packages in front of labkit's, with a warning in every notebook."""
    for active, seen in ((str(tmp_path), None), (sys.prefix, sys.prefix), ("/no/such", None)):
        monkeypatch.setenv("VIRTUAL_ENV", active)
        assert started().get("VIRTUAL_ENV") == seen


def test_commands_in_a_cell_are_those_of_this_installation(
    monkeypatch: pytest.MonkeyPatch, started: Callable[[], dict[str, str]]
) -> None:
    own = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", "/usr/bin")
    assert started()["PATH"] == f"{own}{os.pathsep}/usr/bin"
    monkeypatch.setenv("PATH", f"{own}{os.pathsep}/bin")
    assert started()["PATH"] == f"{own}{os.pathsep}/bin"
