"""What docs/teaching.md promises of grading, row by row and sentence by sentence, and its tests."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from labkit.process.confinement.program import WALLS

ROOT = Path(__file__).parents[2]
DOC = ROOT / "docs" / "teaching.md"
GRADING = "tests/unit/grading/"

#: heading -> row of the table under it, by its beginning -> tests
ROWS: dict[str, dict[str, list[str]]] = {
    "## What contains a submission, and what does not": {
        "network, processes, threads, signals, shared memory": [
            "test_containment.py::test_every_way_out_is_refused",
            "test_channels.py::test_every_channel_is_closed",
            "test_requests_fuzz.py::test_a_machine_that_cannot_contain_submissions_is_refused",
        ],
        "reading files": [
            "test_containment.py::test_every_way_out_is_refused",
            "test_requests_fuzz.py::test_a_machine_without_landlock_closes_all_files",
            "test_channels.py::test_packages_that_are_named_are_there_where_no_file_can_be_opened",
        ],
        "other processes, marks that reading leaves": [
            "test_channels.py::test_every_channel_is_closed",
            "test_channels.py::test_what_a_poorer_machine_loses_is_said_and_the_rest_stays_closed",
        ],
        "the machine's clocks and the number of the core": [
            "test_channels.py::test_a_rank_sees_a_clock_of_its_own_alone",
            "test_channels.py::test_the_processors_counter_is_closed",
            "test_channels.py::test_all_ranks_are_on_one_core",
        ],
        "powers": ["test_containment.py::test_every_way_out_is_refused"],
        "CPU time, memory, open files, calls, bytes, output": [
            "test_containment.py::test_what_ends_a_run_is_told",
            "test_graders_own_life.py::test_buffers_of_open_receives_are_counted",
            "test_graders_own_life.py::test_no_run_begins_after_the_time_of_all_is_spent",
        ],
        "sleeping and polling": [
            "test_containment.py::test_what_ends_a_run_is_told",
            "test_graders_own_life.py::test_a_rank_that_takes_no_answers_and_sleeps_ends_its_run",
            "test_load.py::test_bytes_that_trickle_in_are_no_work",
        ],
        "its end": [
            "test_one_bad_hand_in.py::test_the_end_of_the_grader_is_the_end_of_all_it_started",
            "test_containment.py::test_no_process_outlives_the_sandbox",
        ],
    },
    "**Channels that remain**": {
        "how long others work or wait, by a clock": ["test_channels.py::test_every_channel_is_closed"],
        "simulated clock, charges and barriers": [
            "test_channels.py::test_a_rank_sees_a_clock_of_its_own_alone"
        ],
        "which core one is on": ["test_channels.py::test_all_ranks_are_on_one_core"],
        "page faults, used CPU time": ["test_channels.py::test_every_channel_is_closed"],
        "use of memory, addresses": ["test_cheating.py::test_not_one_of_them_passes"],
        "caches, seen by a clock": ["test_channels.py::test_the_processors_counter_is_closed"],
        "caches or long work, seen by a thread that counts": [
            "test_containment.py::test_every_way_out_is_refused"
        ],
        "when messages come, in which order, with which tag": [
            "test_no_false_pass.py::test_points_are_not_to_be_had_without_the_work"
        ],
    },
    "## What contains a bundle's program": {
        "memory beyond `--memory`": ["tests/unit/study/bundle/test_bundle.py::test_memory_is_limited"],
        **{
            row: ["tests/unit/study/bundle/test_walls.py::test_each_wall_that_is_told_holds"]
            for row in (
                "going on as root", "writing files outside its folder",
                "owners, permissions, times, attributes", "other processes", "priorities, limits and cores",
                "processes that outlive it", "network", "sockets of others", "shared memory of others",
                "setting clocks, mounting",
            )
        },
    },
}  # fmt: skip

#: sentence -> tests
SENTENCES: dict[str, list[str]] = {
    "finished grades are kept in the teacher's own folder (`~/.local/state/labkit`), signed": [
        "test_kept.py::test_a_forged_one_is_none",
        "test_kept.py::test_a_hand_in_that_brings_grades_is_graded",
    ],
    "Links among submissions are refused.": [
        "test_kept.py::test_links_to_other_work_are_refused_and_stop_nobody"
    ],
    "a file that is no Python, no notebook or no text has no points and a sentence": [
        "test_one_bad_hand_in.py::test_every_poisoned_hand_in_becomes_its_students_result",
        "test_long.py::test_sixty_hand_ins_with_poisoned_ones_are_sixty_results",
    ],
    "What only shows things (matplotlib, widgets, `display`) does nothing in a graded run.": [
        "test_load.py::test_what_only_shows_things_shows_nothing"
    ],
    "limits count the processor's time, not the time spent waiting for one": [
        "test_load.py::test_time_in_the_queue_for_a_processor_does_not_count"
    ],
    "a run that met one is repeated alone before it counts": [
        "test_load.py::test_a_run_that_met_a_limit_is_repeated_with_all_limits_before_it_counts",
        "test_load.py::test_who_is_alone_has_no_others_beside_it",
    ],
    "ends before the submission's first line, the submission is *not graded*": [
        "test_what_counts.py::test_an_end_before_the_submission_begins_is_the_machines",
        "test_what_counts.py::test_the_same_codes_by_the_program_are_the_programs",
    ],
    "A message that is never received counts as any other": [
        "test_what_counts.py::test_messages_that_nobody_receives_count",
        "test_what_counts.py::test_every_message_that_was_posted_is_counted_once",
    ],
    "One that does not fit into the buffer of its receive has brought nothing, nor has one to oneself.": [
        "test_what_counts.py::test_messages_to_oneself_bring_nothing",
        "test_what_counts.py::test_a_message_that_does_not_fit_has_brought_nothing",
        "test_what_counts.py::test_a_rank_is_not_handed_what_does_not_fit",
    ],
    "the command imports nothing from there": [
        "test_one_bad_hand_in.py::test_inside_the_folder_nothing_is_imported_from_it"
    ],
    "of a notebook everything is taken that the function needs, as IPython reads it": [
        "test_notebook_reading.py::test_a_graded_function_finds_what_it_finds_in_the_notebook",
        "test_notebook_reading.py::test_trials_do_not_run",
    ],
    "where loading it communicates or fails, what only tries things out is left out": [
        "test_scripts.py::test_a_trial_at_the_end_of_a_script_neither_counts_nor_fails",
        "test_scripts.py::test_what_the_function_needs_may_communicate_when_it_is_loaded",
        "test_scripts.py::test_errors_name_the_lines_of_the_script_as_it_was_handed_in",
    ],
    "What programs ask of their machine by habit is answered": [
        "test_scripts.py::test_what_programs_ask_by_habit_is_answered"
    ],
    "What comes back is read as plain numbers with limits, never unpickled.": [
        "test_containment.py::test_decoding_anything_gives_a_value_or_the_protocols_error",
        "test_requests_fuzz.py::test_random_requests_never_break_the_grader",
    ],
    "`labkit grade` lists what this machine lacks before it grades.": [
        "test_kept.py::test_what_a_machine_lacks_is_said_before_grading"
    ],
    "Inputs come from a keyed generator (HMAC-SHA-256 and SHAKE-256) in the grader.": [
        "test_no_false_pass.py::test_inputs_need_the_key",
        "test_no_false_pass.py::test_keys_of_an_assignment_come_from_the_keyed_generator",
    ],
    "A rank is sent its own input and a seed for its own random numbers that reveals nothing of the key.": [
        "test_no_false_pass.py::test_a_rank_is_told_nothing_of_the_seed"
    ],
    "Numbers of ranks are drawn anew for every grading, from the range that the task names.": [
        "test_no_false_pass.py::test_numbers_of_ranks_are_drawn_anew_within_the_range_told",
        "test_taught.py::test_what_is_right_for_the_ranks_that_are_always_asked_for_is_not_enough",
    ],
    "counts only where its rank has received at least three quarters of those bytes in messages": [
        "test_no_false_pass.py::test_right_results_without_messages_pass_nothing"
    ],
    "in a broadcast, in messages from who had the data": [
        "test_no_false_pass.py::test_messages_of_who_knows_nothing_do_not_count"
    ],
    "Growth is judged on simulated time of messages alone (sleeping and charging take none there)": [
        "test_no_false_pass.py::test_charged_time_does_not_pass_where_growth_is_judged",
        "test_no_false_pass.py::test_points_are_not_to_be_had_without_the_work",
    ],
    "Each task must have been done by some rank": [
        "test_no_false_pass.py::test_rows_that_nobody_had_computed_were_guessed"
    ],
    "who packs tables on many ranks gains nothing": [
        "test_what_is_told.py::test_tables_packed_on_many_ranks_are_as_many",
        "test_what_is_told.py::test_samples_as_tuples_of_numbers_of_numpy_are_few_bytes",
    ],
    "however small the data are packed": [
        "test_no_false_pass.py::test_what_grows_with_p_is_found_however_small_it_is_packed"
    ],
    "What a function does to its arguments changes nothing of what it is judged by": [
        "test_no_false_pass.py::test_what_a_function_does_to_its_arguments_changes_nothing_of_the_judgment"
    ],
}


@cache
def _tests_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def _is_there(test: str) -> bool:
    where, _, name = test.partition("::")
    return name in _tests_of(ROOT / (where if "/" in where else GRADING + where))


def _rows_under(heading: str) -> list[str]:
    rest = DOC.read_text().partition(f"\n{heading}")[2]
    table = re.search(r"(?:^\|.*\n)+", rest, re.MULTILINE)
    assert table is not None, heading
    return [line.split("|")[1].strip() for line in table[0].splitlines()[2:]]


@pytest.mark.parametrize("heading", ROWS)
def test_every_row_of_a_table_of_walls_has_its_test(heading: str) -> None:
    beginnings = list(ROWS[heading])
    rows = _rows_under(heading)
    assert len(rows) == len(beginnings)
    assert [row for row, begin in zip(rows, beginnings, strict=True) if not row.startswith(begin)] == []
    assert [test for tests in ROWS[heading].values() for test in tests if not _is_there(test)] == []


def test_every_wall_that_verify_tells_has_its_row() -> None:
    assert len(WALLS) == len(ROWS["## What contains a bundle's program"])


def test_every_sentence_is_in_the_docs_and_has_its_test() -> None:
    words = " ".join(DOC.read_text().split())
    assert [sentence for sentence in SENTENCES if sentence not in words] == []
    assert [test for tests in SENTENCES.values() for test in tests if not _is_there(test)] == []
