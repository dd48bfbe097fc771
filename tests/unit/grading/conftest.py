"""The sandbox that a module's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labkit.errors import MachineError
from labkit.grading.sandbox import Sandbox


@pytest.fixture(scope="module")
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Start a sandbox with the module's LIMITS; skip where this machine has none."""
    made = Sandbox(request.module.LIMITS)
    try:
        made.start()
    except MachineError as error:
        pytest.skip(f"this machine cannot contain submissions: {error}")
    yield made
    made.close()


@pytest.fixture
def needs_a_sandbox() -> None:
    """Skip where this machine cannot contain submissions."""
    try:
        with Sandbox():
            pass
    except MachineError as error:
        pytest.skip(f"this machine cannot contain submissions: {error}")


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep grades and their key out of the home of who tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
