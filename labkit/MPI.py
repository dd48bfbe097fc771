"""`labkit.MPI`: the simulated module in the simulator, mpi4py.MPI inside a real rank.

Importing this file puts the right module in its own place. Everything in either module pickles by the
name ``labkit.MPI``, and is therefore the right machine's own object wherever it is unpickled.
"""

import sys
from typing import TYPE_CHECKING, Any

from labkit.context import installed_mpi

if installed_mpi() is None:
    from labkit.comm.module import simulated_module

sys.modules[__name__] = installed_mpi() or simulated_module()

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
