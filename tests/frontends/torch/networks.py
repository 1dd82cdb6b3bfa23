"""Networks of `minitvm.tools.models` as PyTorch modules, written without a look at how the graph builder does it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F

from minitvm.graph import Graph


def with_weights_of(module: nn.Module, graph: Graph) -> nn.Module:
    """The module in inference with a graph's constants as its weights; both have them in order of their layers."""
    constants = (c.data for c in graph.constants)
    for tensor in _weights(module):
        tensor.data = torch.from_numpy(next(c for c in constants if c.shape == tensor.shape).copy())
    return module.eval()


def _weights(module: nn.Module) -> Iterator[torch.Tensor]:
    """Parameters and statistics, layer by layer."""
    for layer in module.modules():
        yield from layer.parameters(recurse=False)
        yield from (b for b in layer.buffers(recurse=False) if b.is_floating_point())


# --- pictures ---


class ConvNorm(nn.Sequential):
    """A convolution without bias, batch norm, and perhaps an activation."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0, groups: int = 1,
                 activation: nn.Module | None = None) -> None:  # fmt: skip
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(outputs),
            activation or nn.Identity(),
        )  # fmt: skip


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = ConvNorm(inputs, outputs, 3, stride, 1, activation=nn.ReLU())
        self.second = ConvNorm(outputs, outputs, 3, 1, 1)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else ConvNorm(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.second(self.first(x)) + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(ConvNorm(3, 64, 7, 2, 3, activation=nn.ReLU()), nn.MaxPool2d(3, 2, 1))
        widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
        strides = [1, 1, 2, 1, 2, 1, 2, 1]
        self.blocks = nn.Sequential(*map(BasicBlock, widths[:-1], widths[1:], strides))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)))


class InvertedResidual(nn.Module):
    """Wide, depthwise, narrow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        layers = [] if expansion == 1 else [ConvNorm(inputs, wide, 1, activation=nn.ReLU6())]
        layers += [ConvNorm(wide, wide, 3, stride, 1, wide, nn.ReLU6()), ConvNorm(wide, outputs, 1)]
        self.layers = nn.Sequential(*layers)
        self.residual = inputs == outputs and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV2(nn.Module):
    """MobileNet v2."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [ConvNorm(3, 32, 3, 2, 1, activation=nn.ReLU6())]
        width = 32
        for expansion, channels, depth, stride in [
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
        ]:  # fmt: skip
            for k in range(depth):
                layers.append(InvertedResidual(width, channels, 1 if k else stride, expansion))
                width = channels
        layers.append(ConvNorm(width, 1280, 1, activation=nn.ReLU6()))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean([2, 3]))


class UNet(nn.Module):
    """U-Net."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [3, *(width << level for level in range(depth + 1))]
        self.down = nn.ModuleList(map(self._twice, widths[:-1], widths[1:]))
        ups = []
        for level in reversed(range(depth)):
            ups.append(nn.ConvTranspose2d(width << level + 1, width << level, 2, 2))
            ups.append(self._twice(width << level + 1, width << level))
        self.up = nn.ModuleList(ups)
        self.mask = nn.Conv2d(width, 1, 1)

    @staticmethod
    def _twice(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(
            ConvNorm(inputs, outputs, 3, 1, 1, activation=nn.ReLU()),
            ConvNorm(outputs, outputs, 3, 1, 1, activation=nn.ReLU()),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped = []
        for level, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if level else x)
            skipped.append(x)
        skipped.pop()
        for turned, twice in zip(self.up[::2], self.up[1::2], strict=True):
            x = twice(torch.cat([turned(x), skipped.pop()], 1))
        return torch.sigmoid(self.mask(x))


# --- transformers ---


class Attention(nn.Module):
    """Self-attention of several heads; keys and values may have fewer, and positions may turn queries and keys."""

    def __init__(self, width: int, heads: int, key_heads: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.size = width // heads
        narrow = self.size * (key_heads or heads)
        self.query, self.key, self.value = (nn.Linear(width, n, bias) for n in (width, narrow, narrow))
        self.out = nn.Linear(width, width, bias)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, causal: bool = False,
                rotations: tuple[torch.Tensor, torch.Tensor] | None = None) -> torch.Tensor:  # fmt: skip
        q, k, v = (
            p.unflatten(-1, (-1, self.size)).transpose(1, 2) for p in (self.query(x), self.key(x), self.value(x))
        )
        if rotations is not None:
            q, k = (_rotated(p, *rotations) for p in (q, k))
        mixed = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
        return self.out(mixed.transpose(1, 2).flatten(2))


def _rotated(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat([-second, first], -1) * sines


def _feed_forward(width: int, approximate: str = "none") -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate), nn.Linear(4 * width, width))


class ViT(nn.Module):
    """The vision transformer with patches of 16 x 16."""

    def __init__(self, width: int, depth: int, tokens: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first, self.positions = Table(1, 1, width), Table(1, tokens, width)
        self.blocks = nn.ModuleList(PreNorm(width, width // 64, 1e-6) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first().expand(x.shape[0], -1, -1), x], 1) + self.positions()
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Table(nn.Module):
    """A parameter that is a layer of its own."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape))

    def forward(self) -> torch.Tensor:
        return self.weight


class PreNorm(nn.Module):
    """A block that normalises what attention and the dense layers read."""

    def __init__(self, width: int, heads: int, epsilon: float = 1e-5, approximate: str = "none") -> None:
        super().__init__()
        self.norm_1, self.attention = nn.LayerNorm(width, epsilon), Attention(width, heads)
        self.norm_2, self.dense = nn.LayerNorm(width, epsilon), _feed_forward(width, approximate)

    def forward(self, x: torch.Tensor, causal: bool = False) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x), causal=causal)
        return x + self.dense(self.norm_2(x))


class Bert(nn.Module):
    """BERT; what the mask hides gets so little score that it is not seen."""

    def __init__(self, width: int, depth: int, heads: int, vocabulary: int, length: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), Table(1, length, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(
            nn.ModuleList([
                Attention(width, heads), nn.LayerNorm(width, 1e-12), _feed_forward(width), nn.LayerNorm(width, 1e-12),
            ])
            for _ in range(depth)
        )  # fmt: skip

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        mask = ((1.0 - attention_mask.float()) * -10000.0)[:, None, None]
        x = self.norm(self.tokens(input_ids) + self.positions())
        for attention, norm_1, dense, norm_2 in self.blocks:
            x = norm_1(x + attention(x, mask))
            x = norm_2(x + dense(x))
        return x


class Gpt2(nn.Module):
    """GPT-2; its table of tokens is also the weight of the last layer."""

    def __init__(self, width: int, depth: int, heads: int, vocabulary: int, length: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), Table(1, length, width)
        self.blocks = nn.ModuleList(PreNorm(width, heads, approximate="tanh") for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(input_ids) + self.positions()
        for block in self.blocks:
            x = block(x, causal=True)
        return F.linear(self.norm(x), self.tokens.weight)


class Llama(nn.Module):
    """A decoder with RMS norm, rotary positions, grouped queries and SwiGLU."""

    def __init__(self, width: int, depth: int, heads: int, key_heads: int, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.size = width // heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(
            nn.ModuleList([
                nn.RMSNorm(width, 1e-5), Attention(width, heads, key_heads, bias=False), nn.RMSNorm(width, 1e-5),
                nn.Linear(width, hidden, False), nn.Linear(width, hidden, False), nn.Linear(hidden, width, False),
            ])
            for _ in range(depth)
        )  # fmt: skip
        self.norm, self.head = nn.RMSNorm(width, 1e-5), nn.Linear(width, vocabulary, False)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(input_ids)
        steps = 10000.0 ** -(torch.arange(0, self.size, 2) / self.size)
        angles = (torch.arange(input_ids.shape[1])[:, None] * steps).repeat(1, 2)
        rotations = angles.cos(), angles.sin()
        for norm_1, attention, norm_2, gate, up, down in self.blocks:
            x = x + attention(norm_1(x), causal=True, rotations=rotations)
            y = norm_2(x)
            x = x + down(F.silu(gate(y)) * up(y))
        return self.head(self.norm(x))


class LstmTagger(nn.Module):
    """A tag for each word, by an LSTM that reads in both directions."""

    def __init__(self, vocabulary: int = 50, width: int = 16, hidden: int = 12, tags: int = 5) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(2 * hidden, tags)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.words(words))
        return F.log_softmax(self.tags(states), -1)
