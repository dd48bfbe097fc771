"""Programs with the mistakes that beginners make on a rank. Real ranks import this file: it needs little."""

from labkit import MPI


def size_is_called(comm):
    return [0] * comm.size()


def rank_is_called(comm):
    return comm.size if comm.rank() == 0 else 0


def size_is_not_called(comm):
    return list(range(comm.Get_size))


def a_list_is_a_buffer(comm):
    if comm.rank == 0:
        comm.Send([1, 2, 3], 1)
    return comm.recv(source=0)


def a_number_is_a_buffer(comm):
    return comm.Bcast(comm.rank, root=0)


def a_table_is_a_buffer(comm):
    comm.Isend({"a": 1}, 1 - comm.rank).wait()


def another_number_is_called(comm):
    return len("ab")()


def a_number_beside_it_is_called(comm):
    steps = 3
    return [steps() for _ in range(comm.size)]


def letters_are_exchanged(comm):
    comm.Sned([1], 0)


def a_letter_is_missing(comm):
    comm.bcst(1)


def a_constant_is_misspelt(comm):
    return MPI.COMM_WROLD


def nothing_is_near(comm):
    comm.frobnicate()


def a_keyword_is_misspelt(comm):
    comm.send(1, dst=0)


def another_keyword_is_not_known(comm):
    sorted([1], dst=1)


def pythons_sum_is_the_operator(comm):
    comm.reduce(comm.rank, op=sum)


def what_only_the_root_has(comm):
    data = comm.gather(comm.rank)
    return data[0]


def what_only_the_root_has_is_added(comm):
    total = comm.reduce(comm.rank)
    return total + 1


def another_none(comm):
    data = {}.get("x")
    return data[0]


def numpy_is_not_imported(comm):
    return np.zeros(comm.size)  # noqa: F821


def another_name_is_unknown(comm):
    return nowhere  # noqa: F821
