"""`labkit lab` serves the course, and nothing outlives it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]

pytest.importorskip("jupyterlab")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_lab_serves_the_first_notebook_and_ends_when_it_is_ended(tmp_path, monkeypatch):
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    port = _free_port()
    options = ["--no-browser", f"--port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=x"]
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "labkit", "lab", "--work", str(tmp_path / "work"), "--", *options],
            stdout=file,
            stderr=file,
        )
    try:
        deadline = time.monotonic() + 60
        content = b""
        while not content and time.monotonic() < deadline and process.poll() is None:
            try:
                address = f"http://127.0.0.1:{port}/api/contents/?token=x"
                with urllib.request.urlopen(address, timeout=5) as answer:
                    content = answer.read()
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        assert b"01_" in content, log.read_text()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/custom/custom.css", timeout=5) as answer:
            assert b"word-break: normal" in answer.read()
        assert b'"algorithms"' in content
        assert b'"assignments"' in content
        assert f"http://127.0.0.1:{port}/lab/tree/00_start_here.ipynb?token=" in log.read_text()
        assert "nbgrader" not in log.read_text()
    finally:
        process.terminate()
        process.wait(30)
