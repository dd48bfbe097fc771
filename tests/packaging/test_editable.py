"""What the set-up puts on Python's path."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def test_what_lies_beside_the_checkout_is_nobodys_package(tmp_path: Path) -> None:
    """Someone's ~/statistics_helpers.py must not answer an import in everything that this Python runs."""
    command = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path))"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert str(CHECKOUT.parent) not in json.loads(done.stdout)
