"""What containers and Binder are made of: files that their own tools accept, and that fit together."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKER, BINDER = ROOT / "docker", ROOT / "binder"


def pinned(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock.read_text(), re.MULTILINE))


def wanted() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["mpi"], *extras["data"], *extras["lab"]]
    return {re.match(r"[A-Za-z0-9._-]+", line)[0].lower().replace("_", "-") for line in lines}


def test_every_dependency_is_pinned_with_hashes():
    found = pinned(DOCKER / "requirements.lock")
    assert wanted() <= set(found), "the lock file is older than pyproject.toml: make lock"
    for lock in ("requirements.lock", "build.lock"):
        blocks = re.split(r"^(?=[A-Za-z0-9])", (DOCKER / lock).read_text(), flags=re.MULTILINE)[1:]
        assert [block.split("==")[0] for block in blocks if "--hash=sha256:" not in block] == []
        assert "index-url" not in (DOCKER / lock).read_text()


def test_what_compiles_labkit_fits_what_it_runs_with():
    run, build = pinned(DOCKER / "requirements.lock"), pinned(DOCKER / "build.lock")
    assert {name: run[name] for name in run.keys() & build.keys()} == {
        name: build[name] for name in run.keys() & build.keys()
    }
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {re.match(r"[\w-]+", line)[0] for line in needed} <= set(build)


def test_the_dockerfile_keeps_to_its_promises():
    text = (DOCKER / "Dockerfile").read_text()
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER lab$", last, re.MULTILINE)
    assert "HEALTHCHECK" in last
    assert "g++" not in last
    assert "--require-hashes" in text
    for source in re.findall(r"^COPY (?!--from)(?:--chown=\S+ )?(.+) \S+$", text, re.MULTILINE):
        for one in source.split():
            assert (ROOT / one).exists(), one
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert [one for one in allowed if not (ROOT / one).exists()] == []


@pytest.mark.parametrize("script", ["docker/root/bin/labkit-container", "binder/start", "binder/postBuild"])
def test_scripts_are_bash_that_stops_at_errors_and_can_be_executed(script):
    path = ROOT / script
    assert path.read_text().startswith("#!/bin/bash\n")
    assert "set -euo pipefail" in path.read_text()
    assert path.stat().st_mode & 0o111
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is missing")
    subprocess.run([bash, "-n", str(path)], check=True, timeout=20)


def test_jupyterlab_does_not_ask_for_news():
    path = DOCKER / "root/share/jupyter/lab/settings/overrides.json"
    settings = json.loads(path.read_text())["@jupyterlab/apputils-extension:notification"]
    assert settings["fetchNews"] == "false"
    assert str(path.relative_to(ROOT)) in (BINDER / "postBuild").read_text()


def test_the_start_of_a_session_becomes_the_command_and_says_where_it_is():
    lines = (BINDER / "start").read_text().splitlines()
    assert lines[-1] == 'exec "$@"'
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is missing")
    show = "import os; print(os.environ['LABKIT_PLACE'], float(os.environ['LABKIT_SESSION_START']) > 1e9)"
    command = [bash, str(BINDER / "start"), sys.executable, "-c", show]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "binder True\n"


def test_binder_is_pinned_by_the_images_lock_files():
    lines = (BINDER / "requirements.txt").read_text().splitlines()
    files = [line.split()[1] for line in lines if line.startswith("-r ")]
    assert [(BINDER / one).resolve() for one in files] == [
        DOCKER / "requirements.lock",
        DOCKER / "build.lock",
    ]
    assert (BINDER / "runtime.txt").read_text().strip() == "python-3.11"


def test_repo2docker_accepts_the_folder():
    if importlib.util.find_spec("repo2docker") is None:
        pytest.skip("jupyter-repo2docker is missing (it is in labkit[dev])")
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    made = done.stdout + done.stderr
    assert 'pip install --no-cache-dir -r "binder/requirements.txt"' in made
    assert "RUN ./binder/postBuild" in made
    assert "binder/start" in made
    assert "g++" in made


@pytest.mark.slow
def test_the_compose_file_is_one():
    if importlib.util.find_spec("check_jsonschema") is None:
        pytest.skip("check-jsonschema is missing (it is in labkit[dev])")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [*command, str(DOCKER / "compose.yml")], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
