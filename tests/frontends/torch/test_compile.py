"""`torch.compile(backend="minitvm")`: what it computes, when it builds anew, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra torch is not installed")

import torch
from torch import nn

from minitvm.frontends.torch import compile as torch_compile

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _nothing_captured() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(model: Any, **settings: Any) -> Any:
    return torch.compile(model, backend=torch_compile.backend, **settings)


class Tagger(nn.Module):
    """An embedding, attention, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(9, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.norm(self.words(x))
        y = y + nn.functional.scaled_dot_product_attention(y, y, y, is_causal=True)
        return {"tags": self.head(y).softmax(-1), "length": x.shape[1], "rare": x > 6}


@pytest.mark.parametrize("dynamic", [None, True])
def test_results_are_those_of_the_model(dynamic: bool | None) -> None:
    model = Tagger().eval()
    fast = compiled(model, dynamic=dynamic)
    with torch.no_grad():
        for length in (4, 6, 5):
            words = torch.randint(0, 9, (2, length))
            ours, theirs = fast(words), model(words)
            assert ours.keys() == theirs.keys() and ours["length"] == length
            torch.testing.assert_close(ours["tags"], theirs["tags"], rtol=1e-5, atol=1e-5)
            assert torch.equal(ours["rare"], theirs["rare"])
    with torch.inference_mode():
        assert fast(words)["tags"].shape == (2, 5, 3)


def test_bfloat16_comes_and_goes() -> None:
    model, x = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).bfloat16().eval(), torch.randn(2, 4).bfloat16()
    with torch.no_grad():
        found = compiled(model)(x)
        torch.testing.assert_close(found, model(x), rtol=2**-7, atol=2**-7)
    assert found.dtype == torch.bfloat16


def test_changed_and_exchanged_parameters_are_seen() -> None:
    model, x = nn.Linear(4, 3).eval(), torch.randn(2, 4)
    fast = compiled(model)
    with torch.no_grad():
        assert torch.allclose(fast(x), model(x), atol=1e-6)
        model.weight.mul_(2)
        assert torch.allclose(fast(x), model(x), atol=1e-6)
        model.load_state_dict(nn.Linear(4, 3).state_dict())
        assert torch.allclose(fast(x), model(x), atol=1e-6)
        model.weight = nn.Parameter(torch.ones(3, 4))
        assert torch.allclose(fast(x), model(x), atol=1e-6)


def test_two_models_of_one_class() -> None:
    models, x = [nn.Linear(4, 3).eval() for _ in range(2)], torch.randn(2, 4)
    with torch.no_grad():
        for model in [*map(compiled, models), compiled(models[0])]:
            assert torch.allclose(model(x), model._orig_mod(x), atol=1e-6)


def test_views_transposed_inputs_and_changes_in_place() -> None:
    def forward(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.add_(1)
        return x.t() @ y, x, y[:, 1:]

    a, b = torch.randn(4, 3).t(), torch.randn(3, 5)
    c = a.clone()
    with torch.no_grad():
        for ours, theirs in zip(compiled(forward)(a, b), forward(c, b), strict=True):
            torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(a, c)


def test_training_is_refused() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(Exception, match=re.escape("torch.compile(backend='minitvm') is for inference")) as caught:
        compiled(model)(torch.ones(1, 2))
    assert "with torch.no_grad()" in str(caught.value)


def test_operators_without_a_converter_are_refused() -> None:
    with pytest.raises(Exception, match=r"operator aten.i0.default \(node i0, test_compile.py:\d+\)"):
        compiled(lambda x: torch.i0(x))(torch.ones(2))


def test_options_are_those_of_build() -> None:
    x = torch.randn(3)
    fast = compiled(lambda x: x * 2, options={"threads": 1, "accuracy": "strict"})
    assert torch.equal(fast(x), x * 2)
    torch._dynamo.reset()
    with pytest.raises(Exception, match=re.escape("options has no thread; did you mean threads?")):
        compiled(lambda x: x * 3, options={"thread": 1})(x)


VIEWS = {
    "rows": lambda x: x[1:],
    "turned": lambda x: x.t(),
    "column": lambda x: x[:, 2],
    "repeated": lambda x: x[:, :1].expand(x.shape[0], 3),
    "halves": lambda x: x.chunk(2, 1),
    "flat": lambda x: x.reshape(-1)[3:],
    "every second": lambda x: x[1:, ::2],
    "diagonal": lambda x: x[:4, :4].diagonal(),
    "with a value": lambda x: (x[1:], x.t() + 1, (x * 2).t()[1:]),
    "itself": lambda x: x,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_results_lie_in_memory_as_those_of_the_model(name: str, dynamic: bool) -> None:
    """A view of an input is made anew from the strides and the offset of what the backend returns."""
    function = VIEWS[name]
    fast = compiled(function, dynamic=dynamic)
    for shape in ((4, 6), (5, 8)):
        x = torch.randn(shape)
        with torch.no_grad():
            ours, theirs = (torch.utils._pytree.tree_leaves(f(x)) for f in (fast, function))
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other)
            assert (one.stride(), one.storage_offset()) == (other.stride(), other.storage_offset())


def test_windows_that_share_elements_lie_as_those_of_the_model() -> None:
    x = torch.randn(4, 6)
    with torch.no_grad():
        ours, theirs = (f(x) for f in (compiled(lambda x: x.unfold(1, 3, 1)), lambda x: x.unfold(1, 3, 1)))
    torch.testing.assert_close(ours, theirs)
    assert ours.stride() == theirs.stride()


def test_channels_last_stays_so() -> None:
    model = nn.Conv2d(3, 4, 3).eval()
    x = torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        ours, theirs = compiled(model)(x), model(x)
    assert ours.stride() == theirs.stride()
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_layers_of_transformers_are_compiled_in_evaluation_mode() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    model, x = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval(), torch.randn(2, 5, 8)
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        torch.testing.assert_close(compiled(layer)(x), layer(x), rtol=1e-5, atol=1e-5)
        ours, theirs = (f(x, src_key_padding_mask=hidden) for f in (compiled(layer), layer))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(compiled(model)(x, x[:, :3]), model(x, x[:, :3]), rtol=1e-5, atol=1e-5)


NUMBERS = {
    "an integer": lambda x, k: x * k,
    "a size": lambda x, k: x.new_ones(abs(k), 2) + k,
    "a correction": lambda x, k: x.var(0, correction=k),
    "a float": lambda x, k: torch.where(x > k / 2, x, k * 1.5),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_those_of_each_call(name: str) -> None:
    """PyTorch makes integers among the arguments open, which are the sizes of no tensor."""
    function, x = NUMBERS[name], torch.randn(8, 3)
    fast = compiled(function, dynamic=True)
    with torch.no_grad():
        for number in (3, -2, 3, 5):
            torch.testing.assert_close(fast(x, number), function(x, number))


CLOSED = {
    "a number of windows": lambda x: nn.functional.adaptive_avg_pool2d(x, 3),
    "a share of a size": lambda x: nn.functional.interpolate(x, scale_factor=1.7, recompute_scale_factor=True),
    "the places of the largest": lambda x: nn.functional.max_pool2d(x, 2, return_indices=True)[1],
    "a range of whole numbers": lambda x: torch.arange(0, int(x.shape[2] * 1.5), 2) + x[0, 0, 0, 0],
    "the root of a size": lambda x: x / x.shape[-1] ** 0.5,
    "a view": lambda x: nn.functional.adaptive_avg_pool2d(x, 2)[:, 1:].transpose(1, 2),
}


@pytest.mark.parametrize("name", CLOSED)
def test_operators_that_need_fixed_sizes_have_those_of_the_call(name: str) -> None:
    function = CLOSED[name]
    fast = compiled(function, dynamic=True)
    with torch.no_grad():
        for shape in ((1, 3, 8, 6), (2, 3, 9, 7), (1, 3, 8, 6)):
            x = torch.randn(shape)
            ours, theirs = fast(x), function(x)
            torch.testing.assert_close(ours, theirs)
            assert ours.stride() == theirs.stride()
