"""mpi4py's own test suite, by its own runner and unmodified, on simulated ranks and on real ones."""
