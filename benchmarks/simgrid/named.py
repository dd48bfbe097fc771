"""Collectives by name: an operation of a program, labkit's algorithm, and SimGrid's of the same messages.

README.md lists those of labkit's algorithms that SimGrid has not, or with other messages.
"""

from __future__ import annotations

__all__ = ["EVERY", "NAMED", "OF_MESSAGE_PROGRAMS", "VECTORS"]

#: operation -> problem, labkit's algorithm, SimGrid's option
NAMED = {
    "allreduce": ("allreduce", "recursive_doubling", "smpi/allreduce:rdb"),
    "allreduce_ring": ("allreduce", "ring", "smpi/allreduce:lr"),
    "allreduce_rabenseifner": ("allreduce", "rabenseifner", "smpi/allreduce:rab_rdb"),
    "alltoall": ("alltoall", "pairwise", "smpi/alltoall:pair"),
    "alltoall_bruck": ("alltoall", "bruck", "smpi/alltoall:bruck"),
    "alltoall_linear": ("alltoall", "linear", "smpi/alltoall:basic_linear"),
    "allgather": ("allgather", "ring", "smpi/allgather:NTSLR"),
    "allgather_bruck": ("allgather", "bruck", "smpi/allgather:bruck"),
    "allgather_recursive_doubling": ("allgather", "recursive_doubling", "smpi/allgather:rdb"),
    "barrier_dissemination": ("barrier", "dissemination", "smpi/barrier:ompi_bruck"),
    "bcast": ("bcast", "binomial", "smpi/bcast:binomial_tree"),
    "bcast_linear": ("bcast", "linear", "smpi/bcast:flattree"),
    "gather_binomial": ("gather", "binomial", "smpi/gather:ompi_binomial"),
    "gather_linear": ("gather", "linear", "smpi/gather:default"),
    "reduce_binomial": ("reduce", "binomial", "smpi/reduce:binomial"),
    "reduce_linear": ("reduce", "linear", "smpi/reduce:flat_tree"),
    "reduce_scatter_block_pairwise": ("reduce_scatter_block", "pairwise", "smpi/reduce_scatter:mpich_pair"),
    "reduce_scatter_block_recursive_halving": (
        "reduce_scatter_block",
        "recursive_halving",
        "smpi/reduce_scatter:ompi_basic_recursivehalving",
    ),
    "scatter_linear": ("scatter", "linear", "smpi/scatter:default"),
}
#: those that tests.support.message_program expands itself
OF_MESSAGE_PROGRAMS = ("allreduce", "alltoall", "alltoall_bruck", "alltoall_linear", "allgather", "bcast")
#: those of unequal blocks, which only random programs use (random_cases.py)
VECTORS = {
    "allgatherv_ring": ("allgatherv", "ring", "smpi/allgatherv:mpich_ring"),
    "alltoallv_linear": ("alltoallv", "linear", "smpi/alltoallv:ompi_basic_linear"),
    "alltoallv_pairwise": ("alltoallv", "pairwise", "smpi/alltoallv:ring"),
    "gatherv_linear": ("gatherv", "linear", ""),
    "scatterv_linear": ("scatterv", "linear", ""),
}
EVERY = NAMED | VECTORS
