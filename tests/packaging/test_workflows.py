"""The workflows of a public CI: valid, pinned, with the least rights, and running what the Makefile has."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="needs PyYAML")

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
each = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def workflow(path):
    return yaml.load(path.read_text("utf-8"), Loader=yaml.BaseLoader)  # "on" stays a word


def steps(path):
    return [step for job in workflow(path)["jobs"].values() for step in job["steps"]]


def test_there_are_workflows_for_tests_wheels_and_site():
    assert {path.stem for path in FILES} >= {"tests", "wheels", "site"}


@pytest.mark.slow
@each
def test_the_schema_of_workflows_holds(path):
    if importlib.util.find_spec("check_jsonschema") is None:
        pytest.skip("needs check-jsonschema")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(path)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@each
def test_an_auditor_finds_nothing(path):
    beside = Path(sys.executable).with_name("zizmor")
    program = str(beside) if beside.exists() else shutil.which("zizmor")
    if program is None:
        pytest.skip("needs zizmor")
    done = subprocess.run(
        [program, "--offline", "--no-progress", "--min-severity=low", str(path)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@each
def test_actions_are_pinned_by_their_hash_and_say_their_version(path):
    used = re.findall(r"uses: (.+)", path.read_text("utf-8"))
    assert used
    for one in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one


def test_an_action_has_the_same_hash_everywhere():
    pins = {}
    for path in FILES:
        for name, pin in re.findall(r"uses: ([\w/-]+)@(\S+)", path.read_text("utf-8")):
            assert pins.setdefault(name, pin) == pin, name


@each
def test_rights_limits_and_concurrency(path):
    found = workflow(path)
    assert found["permissions"] == {}
    assert found["concurrency"]["group"]
    for name, job in found["jobs"].items():
        assert int(job["timeout-minutes"]) <= 180, name
        writes = {right for right, what in job["permissions"].items() if what == "write"}
        assert not writes or (path.stem, name) == ("site", "deploy"), (name, writes)
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] == "false"


@each
def test_what_is_run_exists(path):
    """Targets of make are in the Makefile; what pip installs has a version."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for step in steps(path):
        text = step.get("run", "")
        for target in re.findall(r"^make (\S+)", text, re.MULTILINE):
            assert target in targets | {".venv/.set-up-dev"}, target
        for package in re.findall(r"pip install (\S+)", text):
            assert "==" in package or package.startswith("dist/"), package
        assert "${{" not in text, "an expression in a script can be injected: use env"


def test_the_supported_pythons_are_tested_and_built():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    tested = workflow(ROOT / ".github/workflows/tests.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    built = [
        re.fullmatch(r"cp3(\d+)-manylinux_\*", one)[1] for one in project["tool"]["cibuildwheel"]["build"]
    ]
    assert [one.removeprefix("3.") for one in tested] == built
    assert project["project"]["requires-python"] == f">=3.{built[0]}"
