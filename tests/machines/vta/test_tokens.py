"""Tokens that matter are those without which the verifier refuses a program."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from minitvm.errors import VerificationError
from minitvm.machines.vta.assembler import assemble
from minitvm.machines.vta.layers import RESNET18
from minitvm.machines.vta.tokens import tokens, without
from minitvm.machines.vta.verifier import verify
from minitvm.reference.strategies import accelerator_programs
from minitvm.tools.cli.accel_layers import compiled, machine
from tests.machines.vta.programs import TWICE, VTA, changed, twice, without_a_token

COMPILER = machine("vta", "tsim")


def refused(program, config) -> bool:
    try:
        verify(program, config)
    except VerificationError:
        return True
    return False


@settings(max_examples=40)
@given(accelerator_programs())
def test_a_token_matters_if_the_verifier_refuses_the_program_without_it(drawn) -> None:
    refused_where_needed(drawn)


def refused_where_needed(drawn) -> None:
    found = tokens(drawn.program, drawn.config)
    broken = {(push, pop): program for push, pop, program in without_a_token(drawn.program)}
    assert {(one.push, one.pop) for one in found} == set(broken)
    for one in found:
        assert without(drawn.program, one.queue, one.push, one.pop) == broken[one.push, one.pop]
        assert bool(one.needed) == refused(broken[one.push, one.pop], drawn.config), one


def test_what_breaks_is_said() -> None:
    reasons = {(one.push, one.pop): one.needed for one in tokens(twice(), VTA)}
    assert reasons[2, 4] == "both touch inp 0, and the first writes it"
    assert reasons[9, 10] == "the host would read before the store"
    assert all(reasons.values())


def test_a_token_that_orders_other_instructions() -> None:
    """The reset does not touch what the load overwrites; the products in front of it do."""
    late = changed(twice(), {4: {"push_prev": False}, 7: {"push_prev": True}})
    verify(late, VTA)
    (needed,) = (one.needed for one in tokens(late, VTA) if (one.push, one.pop) == (7, 6))
    assert "breaks the rule 'order'" in needed


def test_a_token_for_a_store_of_nothing_does_not_matter() -> None:
    text = TWICE.replace("reset\ngemm", "reset push(store)\ngemm", 1)
    text = text.replace("store.out", "store.out sram=0 dram=y x=0 pop(compute)\nstore.out", 1)
    program = assemble(text, VTA, "idle")
    verify(program, VTA)
    assert [(one.push, one.pop) for one in tokens(program, VTA) if not one.needed] == [(3, 5)]


@pytest.mark.parametrize("name", ["C11"])
def test_every_token_of_a_compiled_layer_matters(name: str) -> None:
    found = tokens(compiled(RESNET18[name], COMPILER), COMPILER.config)
    assert len(found) > 30 and all(one.needed for one in found)


@pytest.mark.full
@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("name", list(RESNET18))
def test_every_token_of_the_compiled_layers_of_resnet18_matters(name: str, contexts: int) -> None:
    found = tokens(compiled(RESNET18[name], COMPILER, contexts), COMPILER.config)
    assert found and all(one.needed for one in found)
