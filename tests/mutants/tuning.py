"""Workloads of the tuner: its records and database, its formulas, its search with a runner that answers from a table.

`kept()`       records there and back, and which of them a build takes
`searched()`   the search and the division of time among tasks
`predicted()`  the residual, and the formulas of tilings beside loops over tiles
`formed()`     the forms of sketches, and that they keep the meaning
`shared()`     schedules that share steps
`farmed()`     what workers of a farm refuse, and what they measure
`on_devices()` measurements on a device: its clock, and the process that has it open
`ran()`        what a child of the runner does to itself, and results that differ
"""

from __future__ import annotations

import contextlib
import inspect
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from minitvm.runtime.device import clock
from tests import conftest  # noqa: F401  (it loads the profile of properties)
from tests.machines.cuda.runtime import fake_cuda
from tests.machines.simd.strategy import test_sketch
from tests.records import test_database, test_lookup, test_record
from tests.tir.schedule import test_shared_steps
from tests.tune import (
    test_algorithms,
    test_confirm,
    test_devices,
    test_measure,
    test_remote,
    test_residual,
    test_search,
    test_task,
)
from tests.tune.farm import test_message

from .oracle import Workload, directed
from .streams import holds


def given_arguments(test: Callable[..., None], **arguments: Any) -> Callable[[], None]:
    """A test without arguments: its fixtures are made here, and others are given."""

    def run() -> None:
        names = inspect.signature(test).parameters
        with (
            pytest.MonkeyPatch.context() as patch,
            tempfile.TemporaryDirectory() as folder,
            contextlib.ExitStack() as stack,
        ):
            made = {"monkeypatch": patch, "tmp_path": Path(folder), "url": f"{folder}/records.db"}
            if "faked" in names:
                made["faked"] = test_search.without_compiling(patch)
            if "here" in names:
                made["here"] = stack.enter_context(test_remote.a_farm_here(patch))
            if "driver" in names:
                made["driver"] = stack.enter_context(fake_cuda.plugged())
            if "children" in names:
                made["children"] = stack.enter_context(test_devices.ended())
            test(**{name: made[name] for name in names if name in made}, **arguments)

    run.__name__ = test.__name__
    return run


def tests(name: str, *checks: Callable[..., None]) -> Workload:
    """Tests of the suite that need no fixtures but those made here."""
    return directed(f"tuner: {name}", lambda: [given_arguments(one) for one in checks], lambda _, one: holds(one))


def listed(name: str, test: Callable[..., None], **values: Any) -> Callable[..., None]:
    """A test with some of its arguments, under its name."""
    one = partial(test, **values)
    one.__name__ = f"{test.__name__} {name}"  # type: ignore[attr-defined]
    return one


def kept() -> Workload:
    return tests(
        "records",
        test_record.test_a_record_comes_back_from_its_line,
        test_record.test_two_records_share_a_uid_only_if_they_are_equal,
        test_record.test_a_decision_comes_back_from_its_text_whatever_the_order_of_its_knobs,
        test_record.test_only_what_was_measured_has_a_time,
        test_record.test_slower_runs_of_a_disturbed_machine_do_not_count,
        test_record.test_a_machine_that_is_slow_for_a_while_is_slow_for_both_of_two,
        test_record.test_targets_for_which_code_differs_have_other_keys,
        test_database.test_what_was_added_is_there_once_in_its_order,
        test_database.test_the_best_is_the_one_with_the_largest_gain_in_its_last_pair,
        test_database.test_a_task_that_was_measured_in_a_network_has_its_best_there,
        listed(
            "at the end",
            test_database.test_what_won_on_the_way_does_not_count_where_the_end_was_measured,
            place="warm, at the end",
        ),
        test_database.test_a_newer_schema_is_refused,
        test_database.test_a_database_of_something_else_is_refused,
        test_database.test_a_damaged_database_is_reported_wherever_it_is_damaged,
        test_lookup.test_lowered_functions_are_kept_apart_by_decision,
        listed("another target", test_lookup.test_what_did_not_win_here_is_not_taken, parts={"target": "another"}),
        listed("alone", test_lookup.test_what_did_not_win_here_is_not_taken, parts={"outcome": "ok"}),
        listed("hardly", test_lookup.test_what_did_not_win_here_is_not_taken, parts={"baseline": 1.005e-3}),
        test_lookup.test_a_record_that_no_longer_applies_is_one_warning,
    )


def algorithms() -> Workload:
    tests_of = test_algorithms
    return tests(
        "algorithms",
        listed("last choice", tests_of.test_a_decision_is_carried_out_and_keeps_the_meaning, place=2),
        tests_of.test_decisions_count_inside_only,
        tests_of.test_alternatives_come_by_place_without_doubtful_and_known_ones,
        tests_of.test_what_is_faster_in_the_network_twice_is_built,
        listed("slower", tests_of.test_what_is_lucky_or_makes_others_slower_is_not_built, slower=1.2, again=1.0),
        listed("lucky", tests_of.test_what_is_lucky_or_makes_others_slower_is_not_built, slower=1.0, again=2.5),
    )


def searched() -> Workload:
    return tests(
        "search",
        test_search.test_the_untuned_program_is_measured_first_and_is_the_best_until_a_pair_is_won,
        test_search.test_the_fastest_wins_in_the_end_and_the_database_says_so,
        test_search.test_no_candidate_is_tried_twice_and_none_of_the_same_code,
        test_search.test_the_end_of_the_space_is_the_end_of_the_search,
        test_search.test_what_looks_faster_alone_and_is_not_beside_the_best_does_not_win,
        test_search.test_the_next_session_goes_on_where_the_last_one_was,
        test_search.test_records_of_another_target_are_priors_and_never_the_answer,
        listed("wrong", test_search.test_what_goes_wrong_is_recorded_and_never_wins, outcome="wrong"),
        test_search.test_trials_bound_the_measured_candidates_of_all_tasks,
        test_search.test_nothing_is_measured_that_is_not_worth_it,
        test_search.test_time_goes_to_the_task_that_takes_the_most,
        test_search.test_what_is_predicted_to_take_much_longer_is_drafted_last,
        test_search.test_a_task_begins_when_its_turn_comes,
        test_search.test_a_machine_that_is_slow_for_a_while_makes_no_candidate_slow,
        test_search.test_one_half_of_a_pair_is_not_enough,
        listed(
            "loses", test_confirm.test_what_wins_in_the_network_is_what_a_build_takes, tuned={"own": 3e-3}, wins=False
        ),
        listed(
            "costs",
            test_confirm.test_what_wins_in_the_network_is_what_a_build_takes,
            tuned={"own": 1e-3, "last": 3e-3},
            wins=False,
        ),
        listed(
            "wins", test_confirm.test_what_wins_in_the_network_is_what_a_build_takes, tuned={"own": 1e-3}, wins=True
        ),
        test_confirm.test_the_next_session_goes_on_with_what_won_in_the_network,
        test_confirm.test_what_crashes_in_the_network_is_not_taken,
        listed(
            "lucky",
            test_confirm.test_without_a_network_it_is_the_untuned_program_that_has_to_be_beaten,
            reason="no network",
            luck=False,
        ),
        test_confirm.test_open_sizes_have_values_that_fit_one_another,
        test_confirm.test_a_barrier_belongs_to_the_operator_in_front_of_it,
        test_confirm.test_a_gain_is_that_of_the_worse_half_and_of_runs_side_by_side,
        listed("late", test_search.test_what_there_was_no_time_for_is_no_record_and_comes_again, stage="late"),
        listed("slow", test_search.test_what_there_was_no_time_for_is_no_record_and_comes_again, stage="not compiled"),
        test_search.test_the_gain_of_a_task_is_what_a_run_of_the_model_would_save,
        test_task.test_equal_operators_are_one_task_with_the_number_of_their_uses,
        test_task.test_uses_are_named_and_constants_are_known,
        test_task.test_a_function_has_one_key_whatever_it_is_called,
        test_task.test_sizes_that_stay_open_are_named,
        test_devices.test_what_a_target_refuses_is_a_task_for_its_host,
    )


def predicted() -> Workload:
    return tests(
        "predictions",
        test_sketch.test_the_formulas_of_a_product_are_those_of_its_accesses,
        test_sketch.test_a_panel_is_shared_out_as_a_whole,
        test_sketch.test_windows_that_slide_over_a_tile_are_kept_in_registers,
        test_sketch.test_windows_that_slide_over_a_tile_are_loaded_once,
        test_sketch.test_a_tile_of_a_group_reads_what_all_of_it_share,
        test_sketch.test_a_nest_of_a_group_touches_what_all_of_it_share,
        test_sketch.test_edges_along_three_axes_have_no_versions,
        test_sketch.test_lines_that_a_nest_touches_are_those_of_its_elements,
        test_sketch.test_a_cache_is_filled_once_by_what_fits_and_again_by_each_loop_around_what_does_not,
        test_sketch.test_what_fits_the_last_cache_does_not_come_from_memory,
        test_sketch.test_quotients_and_rests_on_neighbouring_dimensions_are_one_index,
        test_sketch.test_forms_follow_from_the_accesses,
        test_sketch.test_what_neighbours_read_is_told_apart,
        test_sketch.test_all_tiles_are_ranked_by_the_formulas_and_fit_the_registers,
        test_residual.test_a_smooth_residual_is_learned_from_two_dozen_points,
        test_residual.test_a_machine_that_is_slower_by_a_factor_moves_all_predictions_by_it,
        test_residual.test_one_record_of_an_operator_moves_all_of_its_candidates,
        listed("rule", test_residual.test_the_less_is_shared_the_less_is_learned, what="rule"),
        test_residual.test_far_from_what_was_seen_only_what_is_shared_is_said,
        test_residual.test_what_was_measured_is_known_and_what_is_alike_nearly,
        test_residual.test_the_boldest_may_be_the_fastest_and_are_not_alike,
        test_residual.test_what_is_left_out_is_predicted_from_the_others,
        test_residual.test_the_last_points_count_where_there_are_too_many,
        listed("nhwc", test_sketch.test_sketches_keep_the_meaning_or_are_refused, family="nhwc"),
    )


def formed() -> Workload:
    return tests(
        "forms of sketches",
        test_sketch.test_forms_follow_from_the_accesses,
        *(
            listed(family, test_sketch.test_sketches_keep_the_meaning_or_are_refused, family=family)
            for family in ("turned", "image")
        ),
    )


def shared() -> Workload:
    return tests(
        "shared steps",
        test_shared_steps.test_a_step_is_made_once_and_what_differs_by_itself,
        test_shared_steps.test_numbers_of_other_kinds_are_other_arguments,
        test_shared_steps.test_functions_of_the_same_code_and_numbers_are_one_argument,
        test_shared_steps.test_maps_of_the_same_variables_to_the_same_results_are_one_argument,
        test_shared_steps.test_a_refusal_is_the_same_error_and_changes_nothing,
        test_shared_steps.test_a_list_that_a_caller_changes_is_its_own,
        test_shared_steps.test_sampling_begins_with_the_same_numbers_and_leaves_with_another_seed,
        test_shared_steps.test_what_is_not_a_call_ends_the_sharing,
        test_shared_steps.test_what_is_undone_is_undone_in_one_schedule,
        test_shared_steps.test_the_tree_is_bounded,
    )


def farmed() -> Workload:
    return tests(
        "farm",
        listed("argument", test_message.test_another_byte_anywhere_is_noticed, place=-1),
        test_message.test_a_request_of_another_key_is_refused,
        test_message.test_a_signed_artifact_is_no_signed_request,
        test_message.test_a_worker_does_what_is_signed_and_nothing_else,
        test_remote.test_a_worker_that_never_saw_the_untuned_program_finds_out_what_is_right,
    )


def on_devices() -> Workload:
    grouped = test_devices.test_calls_are_timed_in_groups_that_are_long_enough
    return tests(
        "devices",
        test_devices.test_a_call_takes_what_the_clock_of_the_device_says,
        listed("rounds", grouped, seconds=clock.SAMPLE / 4, copies=3, groups=[6]),
        test_devices.test_a_measurement_is_right_or_wrong_and_as_long_as_the_device_says,
        test_devices.test_what_a_device_has_too_little_of_is_refused_and_a_fault_ends_the_process,
        test_devices.test_one_process_measures_until_a_candidate_ends_it,
        test_devices.test_what_one_candidate_wrote_is_not_said_of_the_next,
        test_devices.test_a_process_that_ended_by_itself_is_replaced,
    )


def ran() -> Workload:
    nan = float("nan")
    differences = test_measure.test_differences
    return tests(
        "runner",
        listed("NaN", differences, wanted=[1.0, 2.0], found=[1.0, nan], apart=float("inf")),
        listed("a quarter", differences, wanted=[1.0, -4.0], found=[1.0, -3.0], apart=0.25),
        listed("NaN wanted", differences, wanted=[nan, 2.0], found=[1.0, 2.0], apart=float("inf")),
        test_measure.test_integers_have_to_be_equal,
        test_measure.test_a_crash_is_recorded_with_its_signal_and_what_was_said,
        test_measure.test_a_hang_ends_at_the_limit,
        test_measure.test_an_error_is_recorded_with_its_last_line,
        test_measure.test_memory_errors_are_told_apart,
        test_measure.test_the_state_of_the_caches_is_stated,
        listed(
            "disturbed",
            test_measure.test_runs_go_on_until_the_fastest_repeat_themselves,
            first=[9.0, 5.0, 7.0, 3.0, 1.0, 1.04, 1.5, 1.0, 1.0],
            second=[1.0] * 9,
            count=8,
        ),
    )
