"""The command ``labkit``, also as ``python -m labkit``."""

import os
import sys

__all__ = ["command"]


def command() -> int:
    """Run the command line in a process that does nothing else."""
    # the command has no working folder among its modules' places; Python's -m puts it first: a folder of
    # submissions, perhaps, one of them called numpy.py. A script finds its own folder there.
    if not sys.flags.safe_path and sys.path[:1] in ([os.getcwd()], [os.path.dirname(sys.argv[0])]):
        del sys.path[0]
    from labkit.cli import main
    from labkit.process import child

    child.may_fork = True
    return main()


if __name__ == "__main__":
    sys.exit(command())
