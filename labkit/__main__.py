"""The command ``labkit``, also as ``python -m labkit``."""

import gc
import os
import sys

__all__ = ["command"]

#: objects that the command may make before garbage is looked for
_OBJECTS = 100_000


def command() -> int:
    """Run the command line in a process that does nothing else."""
    # the command has no working folder among its modules' places; Python's -m puts it first: a folder of
    # submissions, perhaps, one of them called numpy.py. A script finds its own folder there.
    if not sys.flags.safe_path and sys.path[:1] in ([os.getcwd()], [os.path.dirname(sys.argv[0])]):
        del sys.path[0]
    from labkit.process import child

    # A sixth of a short run is the search for garbage among what the imports make, and there is none.
    child.collector = gc.get_threshold()
    gc.set_threshold(_OBJECTS)
    from labkit.cli import main

    child.may_fork = True
    code = main()
    gc.freeze()  # nor at the end of the process
    return code


if __name__ == "__main__":
    sys.exit(command())
