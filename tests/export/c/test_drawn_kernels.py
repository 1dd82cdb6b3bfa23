"""Drawn programs with drawn schedules, and programs with schedules of every form, as C under the sanitizers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, reject

from minitvm.errors import Unsupported, VerificationError
from minitvm.reference.strategies import Scheduled, scheduled
from minitvm.tir import Schedule
from minitvm.tir.nodes import PrimFunc
from tests.codegen.test_backends import PROGRAMS, SCHEDULES
from tests.export.c.programs import check, needs_gcc
from tests.fewer import examples
from tests.machines.simd.strategy.test_tiles import dense, in_tiles
from tests.machines.simd.vectors.test_tile_products import product, tensorized

pytestmark = needs_gcc


@examples(4, 300, deadline=None)
@given(scheduled())
def test_drawn_programs_with_schedules(tmp_path_factory: pytest.TempPathFactory, drawn: Scheduled) -> None:
    try:
        check(drawn.after, tmp_path_factory.mktemp("drawn"))
    except (Unsupported, VerificationError):  # grids of GPUs, outputs that are read too, indices that data decide
        reject()


@pytest.mark.alike("program", "schedule")
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_with_schedules(
    program: Callable[[], PrimFunc], schedule: Callable[[Schedule], None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    sch = Schedule(program())
    schedule(sch)
    check(sch.func, tmp_path_factory.mktemp("scheduled"))


@pytest.mark.parametrize(
    "scheduled_func", [lambda: tensorized(product()), lambda: in_tiles(dense()).func], ids=["bytes", "registers"]
)
def test_products_of_tiles(scheduled_func: Callable[[], PrimFunc], tmp_path_factory: pytest.TempPathFactory) -> None:
    """The instructions of AMX: in plain C."""
    check(scheduled_func(), tmp_path_factory.mktemp("tiles"))
