"""The choice of tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.errors import InputError
from minitvm.tools.language import Sampling

LOGITS = np.log(np.array([0.05, 0.4, 0.3, 0.2, 0.05], np.float32))


def test_without_temperature_the_likeliest_is_chosen() -> None:
    assert Sampling().chooser()(LOGITS) == 1


@pytest.mark.parametrize(
    ("options", "possible"),
    [
        ({"top_k": 2, "top_p": 1.0}, {1, 2}),
        ({"top_k": 0, "top_p": 0.65}, {1, 2}),
        ({"top_k": 0, "top_p": 0.75}, {1, 2, 3}),
        ({"top_k": 1}, {1}),
        ({"top_k": 0, "top_p": 0.01}, {1}),
    ],
)
def test_which_tokens_can_be_drawn(options: dict[str, float], possible: set[int]) -> None:
    choose = Sampling(temperature=1.0, **options).chooser()  # type: ignore[arg-type]
    assert {choose(LOGITS) for _ in range(200)} == possible


def test_how_often_tokens_are_drawn() -> None:
    choose = Sampling(temperature=2.0, top_k=0, top_p=1.0).chooser()
    counts = np.bincount([choose(LOGITS) for _ in range(4000)], minlength=5)
    expected = np.sqrt(np.exp(LOGITS.astype(np.float64)))
    np.testing.assert_allclose(counts / 4000, expected / expected.sum(), atol=0.03)


@given(
    logits=st.lists(st.floats(-100, 100, width=32) | st.just(-np.inf), max_size=9).map(lambda x: [*x, 0.5]),
    temperature=st.floats(0, 1e308),
    top_p=st.floats(0, 1, exclude_min=True),
)
def test_every_temperature_draws_a_possible_token(logits: list[float], temperature: float, top_p: float) -> None:
    array = np.array(logits, np.float32)
    token = Sampling(temperature=temperature, top_p=top_p).chooser()(array)
    assert array[token] > -np.inf
    if temperature < 1e-50:
        assert array[token] == array.max()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_refused(number: float, temperature: float) -> None:
    logits = np.full(3, number, np.float32)
    with pytest.raises(InputError, match=f"the logit of token 0 is {number}"):
        Sampling(temperature=temperature).chooser()(logits)


@given(seed=st.integers(0, 2**32))
def test_a_seed_repeats(seed: int) -> None:
    first, second = (Sampling(temperature=1.5, seed=seed).chooser() for _ in range(2))
    assert [first(LOGITS) for _ in range(9)] == [second(LOGITS) for _ in range(9)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"temperature": -1.0}, "temperature is -1.0, wanted a number from 0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, "top-p is 0.0, wanted a number above 0 and at most 1"),
        ({"top_k": -1}, "top-k is -1"),
    ],
)
def test_refusals(options: dict[str, float], text: str) -> None:
    with pytest.raises(InputError, match=text):
        Sampling(**options)  # type: ignore[arg-type]


@given(
    logits=st.lists(st.floats(-20, 20, width=32) | st.sampled_from([-1.0, 2.0, -np.inf]), max_size=30),
    top_k=st.integers(0, 12), top_p=st.floats(0.01, 1), temperature=st.sampled_from([0.3, 1.0, 4.0]),
)  # fmt: skip
def test_the_tokens_that_can_be_drawn_are_those_of_the_definition(
    logits: list[float], top_k: int, top_p: float, temperature: float
) -> None:
    array = np.array([*logits, 0.5], np.float32)
    order = np.argsort(-array, kind="stable")[: top_k or None]
    likely = np.exp(array[order].astype(np.float64) / temperature)
    before = (np.cumsum(likely) - likely) / likely.sum()
    if np.abs(before - top_p).min() < 1e-6:
        return  # rounding decides
    expected = {int(token): share for token, share, less in zip(order, likely, before) if less < top_p and share}

    class Drawing:
        def choice(self, tokens: np.ndarray, p: np.ndarray) -> int:
            total = sum(expected.values())
            drawn = {int(token): share for token, share in zip(tokens, p) if share}
            assert drawn == pytest.approx({token: share / total for token, share in expected.items()})
            return int(tokens[0])

    Sampling(temperature=temperature, top_k=top_k, top_p=top_p)._choice(array, Drawing())  # type: ignore[arg-type]
