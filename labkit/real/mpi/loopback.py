"""The library that keeps the ports of a run on one host to its loopback interface (`kernels/loopback`).

Open MPI and MPICH listen on all interfaces, their launchers as well, and no setting of theirs changes that.
Every rank of a real run loads this file: it needs little.
"""

from __future__ import annotations

import importlib.util
import os
import sys

TYPE_CHECKING = False  # as in typing, which every rank would import for this alone
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["loopback_settings", "restore_preload"]

_PRELOAD = "LD_PRELOAD"
#: environment variable with the program's own value of it
_ORIGINAL = "LABKIT_LD_PRELOAD"
_SEPARATORS = frozenset(": \t\n")


def loopback_settings(base: Mapping[str, str], scratch: str) -> dict[str, str]:
    """Return the environment variables that load the library into a launcher and its ranks."""
    kernels = importlib.util.find_spec("labkit._kernels")  # beside them; they themselves are not needed
    if sys.platform != "linux" or kernels is None or kernels.origin is None:
        return {}
    path = os.path.join(os.path.dirname(kernels.origin), "_loopback.so")
    if not os.path.exists(path):
        return {}
    if _SEPARATORS & set(path):
        path, target = os.path.join(scratch, "loopback.so"), path
        if _SEPARATORS & set(path):
            return {}
        os.symlink(target, path)
    own = base.get(_PRELOAD, "")
    return {_PRELOAD: f"{path}:{own}" if own else path, _ORIGINAL: own}


def restore_preload() -> None:
    """Let what a rank's program starts have the program's own LD_PRELOAD."""
    own = os.environ.pop(_ORIGINAL, None)
    if own:
        os.environ[_PRELOAD] = own
    elif own is not None:
        os.environ.pop(_PRELOAD, None)
