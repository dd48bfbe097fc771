"""What feedback says of values: what came, what was expected, how many are wrong, and that once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from labkit.grading import Case, find_assignment
from labkit.grading.checks import everybody_has_it
from labkit.grading.trial import instead_of, wrong_integers


def test_one_wrong_value_is_one() -> None:
    wanted = [np.array([0, 1]), np.array([2, 3, 4])]
    one = wrong_integers(wanted, [wanted[0], np.array([2, 9, 4])], "places", "key")
    assert one == (
        "rank 1 returned [2, 9, 4], expected [2, 3, 4]: 1 of 3 is wrong, the first one is that of key 3"
    )
    two = wrong_integers(wanted, [np.array([5, 6]), wanted[1]], "places", "key")
    assert "2 of 2 are wrong" in str(two)


def test_a_list_is_not_shown_as_if_it_were_an_array() -> None:
    said = wrong_integers([np.array([3, 2])], [[3, 2]], "distances", "vertex")
    assert said == "rank 0 returned [3, 2] of type list, expected an array of 2 distances"
    assert "returned None, expected" in str(wrong_integers([np.array([3])], [None], "places", "key"))
    square = wrong_integers([np.array([3])], [np.array([[3]])], "places", "key")
    assert square == "rank 0 returned int64 array of shape (1, 1), expected an array of 1 places"


@pytest.mark.parametrize("shape", [(30,), (40, 50)], ids=["numbers left out", "no room for numbers"])
def test_arrays_that_are_cut_show_the_first_wrong_value(shape: tuple[int, ...]) -> None:
    wanted = np.linspace(0, 1, int(np.prod(shape))).reshape(shape)
    found = wanted.copy()
    at = tuple(n // 2 for n in shape)
    found[at] = 7.25
    said = instead_of(found, wanted, found != wanted)
    assert said.startswith(f"7.25 at index {list(at)}, expected {wanted[at]}: 1 of {wanted.size} is wrong")


def test_values_that_differ_in_their_bits_alone_show_them() -> None:
    given = np.array([0x7FF8 << 48, (0x7FF8 << 48) + 5], np.uint64).view(float)
    case = Case(2, [(given,), (None,)], "NaNs")
    said = everybody_has_it(case, [given, np.array([np.nan, np.nan])])
    assert said == (
        "rank 1 returned nan (bits 7ff8000000000000) at index [1], expected nan (bits 7ff8000000000005): "
        "1 of 2 is wrong"
    )


def test_a_schedule_that_fails_everywhere_says_so_once() -> None:
    def rounds(group: Any) -> Any:
        raise ValueError("no idea")
        yield

    results = find_assignment("prefix_sum").try_out(rounds).results
    assert [("no idea" in one.feedback, "as in “" in one.feedback) for one in results] == [
        (True, False), *[(False, True)] * 4,
    ]  # fmt: skip
    assert "rank 0 of 1" not in results[0].feedback


def test_a_block_of_another_type_is_reported_with_its_type() -> None:
    def smooth(comm: Any, block: Any, tolerance: float, most: int) -> Any:
        return block.astype(int), most

    (found,) = find_assignment("deadlock").try_out(smooth, only=["short"]).results
    assert "returned int64 array of shape" in found.feedback
    assert "expected floating-point numbers of shape" in found.feedback


def test_a_row_computed_twice_is_one_computation_too_many() -> None:
    def julia(comm: Any, n: int, row: Any) -> Any:
        rows = [row(y) for y in range(comm.rank, n, comm.size)]
        if comm.rank == 0:
            row(0)
        every = comm.gather(rows)
        if comm.rank:
            return None
        return np.array([every[y % comm.size][y // comm.size] for y in range(n)])

    (found,) = find_assignment("julia").try_out(julia, only=["once"]).results
    assert "row 0 is computed 2 times; 1 computation is too many." in found.feedback


def test_blocks_that_are_not_sorted_are_reported_once_with_the_first_wrong_key() -> None:
    def parallel_sort(comm: Any, keys: Any) -> Any:
        return np.concatenate(comm.allgather(np.sort(keys)))[comm.rank :: comm.size][::-1]

    easy, other = find_assignment("sort").try_out(parallel_sort, only=["easy", "any_number"]).results
    assert "not a correct sort: rank 0: its block is not sorted\n  key " in easy.feedback
    assert easy.feedback.count("its block is not sorted") == 1
    assert f"as in “{easy.title}”" in other.feedback
    assert "is not sorted" not in other.feedback


def test_a_wrong_row_of_a_picture_shows_its_first_wrong_value() -> None:
    def julia(comm: Any, n: int, row: Any) -> Any:
        rows = [row(y) for y in range(comm.rank, n, comm.size)]
        every = comm.gather(rows)
        if comm.rank:
            return None
        picture = np.array([every[y % comm.size][y // comm.size] for y in range(n)])
        picture[3, 20] += 1
        return picture

    (found,) = find_assignment("julia").try_out(julia, only=["right"]).results
    assert "row 3 of rank 0's picture, the first wrong one of 1, is " in found.feedback
    assert " at index [20], expected " in found.feedback
