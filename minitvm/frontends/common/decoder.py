"""Build decoders in the shape of Llama from their sizes and weights: Llama, Mistral, SmolLM, Qwen 2 and 3, Gemma.

    x = embedding[tokens]
    for each layer:
        y = rms_norm(x)
        q, k, v = y Wq, y Wk, y Wv             split into heads; q and k are rotated by the positions (Su et al. 2021)
        cache of keys, cache of values = with k and v written at the positions
        x = x + attention(q, caches) Wo        several heads of queries share a head of keys (Ainslie et al. 2023)
        y = rms_norm(x)
        x = x + (activation(y Wgate) * (y Wup)) Wdown
    logits = rms_norm(x) Woutput

The caches are states of the graph. Weights are found by the names that GGUF gives them: "blk.0.attn_q.weight".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ...errors import ModelError, UnsupportedOperator
from ...executable.alignment import frozen
from ...graph.nodes import Graph
from .block_weights import BlockNumbers, BlockWeights, PackedWeights, product_in_bytes
from .conversion import Conversion
from .decoder_config import DecoderConfig, DecoderOptions
from .heads import heads_of, joined_heads, turned
from .operand import Operand
from .operand_builder import OperandBuilder

Weight = BlockWeights | np.ndarray  # [columns, depth]; an array holds floats


class DecoderWeights:
    """The weights of a model, by the names that GGUF gives them.

    `read(name)` returns a weight, or None if the model has no such weight. Programs that are built from one object
    share the arrays of their constants.
    """

    def __init__(self, source: str, names: Collection[str], read: Callable[[str], Weight]) -> None:
        self.source, self.names, self._read = source, names, read
        self._shared: dict[str, Any] = {}
        self._used: set[str] = set()

    def get(self, name: str, shape: Sequence[int]) -> Weight:
        """Return a weight. Raises `ModelError` if the model does not have it, or has it in another shape."""
        if name not in self.names:
            raise ModelError(f"{self.source}: there is no weight {name!r}, which the architecture needs")
        self._used.add(name)
        weight = self._read(name)
        actual = (weight.columns, weight.depth) if isinstance(weight, BlockWeights) else weight.shape
        if tuple(actual) != tuple(shape):
            raise ModelError(f"{self.source}: the weight {name!r} has the shape {list(actual)}, wanted {list(shape)}")
        return weight

    def require_used(self) -> None:
        """Raise `UnsupportedOperator` if the model has a weight that no program has read: its meaning would be lost."""
        unused = sorted(set(self.names) - self._used)
        if unused:
            others = f" (and {len(unused) - 1} others)" if len(unused) > 1 else ""
            raise UnsupportedOperator(
                f"{self.source}: the weight {unused[0]!r}{others} has no place in this architecture"
            )

    def shared(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the object for a key, which `make()` returns the first time."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]


def decoder(name: str, config: DecoderConfig, weights: DecoderWeights, options: DecoderOptions) -> Graph:
    """Return the graph of a decoder."""
    return _Decoder(name, config, weights, options).graph()


class _Decoder(Conversion):
    """A decoder in the making. `piece` is the name of the weight that is being used."""

    def __init__(self, name: str, config: DecoderConfig, weights: DecoderWeights, options: DecoderOptions) -> None:
        super().__init__(OperandBuilder(name))
        self.config, self.options, self.weights = config, options, weights
        self.piece = "tokens"
        self.slots: list[Operand] = []  # the caches' entry of each row, if that is an input
        self.states: list[tuple[str, Operand, Operand]] = []

    @property
    def where(self) -> str:
        return self.piece

    @property
    def name_hint(self) -> str:
        return self.piece.removesuffix(".weight").replace(".", "_")

    def graph(self) -> Graph:
        config, options = self.config, self.options
        tokens = self.builder.input("tokens", (options.batch, options.length), "int32")
        positions = self.builder.input("positions", (options.batch,), "int32")
        if options.slots is not None:
            self.slots = [self.builder.input("slots", (options.batch,), "int32")]
        x = self.embedded(tokens)
        tables = self.rotations(positions)
        for layer in range(config.depth):
            y = self.normalized(x, f"blk.{layer}.attn_norm")
            x = self.op("add", x, self.attention(y, layer, positions, tables))
            y = self.normalized(x, f"blk.{layer}.ffn_norm")
            x = self.op("add", x, self.feed_forward(y, layer))
        if not options.all_logits:
            x = self.of_last_token(x)
        x = self.normalized(x, "output_norm")
        tied = "output.weight" not in self.weights.names
        logits = self.product(x, "token_embd" if tied else "output", config.vocabulary, config.width)
        if not options.all_logits:
            logits = self.reshape(logits, (options.batch, config.vocabulary))
        self.weights.require_used()
        return self.builder.build([("logits", logits)], [(old, new) for _, old, new in self.states])

    # --- parts ---

    def embedded(self, tokens: Operand) -> Operand:
        """Return the rows of the embedding for the tokens, in float32."""
        config = self.config
        self.piece = "token_embd.weight"
        table = self.weights.shared("embedding", self.embedding)
        x = self.rows(table, tokens) if isinstance(table, np.ndarray) else self.rows_of_blocks(table, tokens)
        x = self.reshape(x, (*tokens.shape, config.width))
        return x if config.embedding_scale == 1 else self.op("multiply", x, config.embedding_scale)

    def embedding(self) -> Weight:
        """Return the table with a row for each token. Integers of 5 and 6 bits become bytes."""
        table = self.weights.get(self.piece, (self.config.vocabulary, self.config.width))
        if isinstance(table, np.ndarray):
            return frozen(table)
        bits, data = (table.bits, table.packed) if table.bits == 4 else (8, table.stored)
        minimum = None if table.minimum is None else table.minimum.map(frozen)
        return BlockWeights(bits, frozen(data), table.scale.map(frozen), table.offset, minimum)

    def rows(self, table: np.ndarray, tokens: Operand) -> Operand:
        return self.cast(self.op("take", Operand.known(table), tokens, axis=0), "float32")

    def rows_of_blocks(self, table: BlockWeights, tokens: Operand) -> Operand:
        """Return the rows of a table of blocks. Only these rows become floats.

        With 4 bits, a byte holds two integers: its low nibble is from the first half of a block.
        """
        packed = self.op("take", Operand.known(table.packed), tokens, axis=0)
        if table.bits == 4:
            first = self.op("bitwise_and", packed, np.array(15, np.uint8))
            second = self.op("right_shift", packed, np.array(4, np.uint8))
            packed = self.op("concatenate", first, second, axis=3)
        numbers, scale = self.cast(packed, "float32"), self.numbers_of_rows(table.scale, tokens)
        if table.minimum is not None:
            return self.op("add", self.op("multiply", numbers, scale), self.numbers_of_rows(table.minimum, tokens))
        return self.op("multiply", self.op("subtract", numbers, float(table.offset)), scale)

    def numbers_of_rows(self, part: BlockNumbers, tokens: Operand) -> Operand:
        """Return a number for each block of the tokens' rows, [batch, length, blocks, 1]."""
        numbers = self.rows(part.numbers, tokens)
        if part.unit is not None:
            count, shared = part.unit.shape[1], part.numbers.shape[1] // part.unit.shape[1]
            grouped = self.reshape(numbers, (*tokens.shape, count, shared))
            unit = self.op("expand_dims", self.rows(part.unit, tokens), axis=-1)
            numbers = self.reshape(self.op("multiply", grouped, unit), (*tokens.shape, count * shared))
        return self.op("expand_dims", numbers, axis=-1)

    def of_last_token(self, x: Operand) -> Operand:
        """Return the row of the last token, [batch, 1, width]."""
        length = self.options.length
        if isinstance(length, int) and length == 1:
            return x
        return self.part(x, 1, length - 1, length)

    def normalized(self, x: Operand, name: str, width: int = 0) -> Operand:
        """Return x divided by the root of the mean of its squares along the last axis, times a weight."""
        self.piece = f"{name}.weight"
        weight = self.weights.get(self.piece, (width or self.config.width,))
        assert isinstance(weight, np.ndarray)
        gains = np.ascontiguousarray(weight, np.float32)
        result: Operand = self.op("nn.rms_norm", x, gains, axis=(-1,), epsilon=self.config.epsilon)
        return result

    def product(self, x: Operand, name: str, columns: int, depth: int, order: np.ndarray | None = None) -> Operand:
        """Return x times a matrix, plus a bias if the model has one. Column k of the result is `order[k]` of these."""
        self.piece = f"{name}.weight"
        weight = self.weights.shared(name, lambda: self.matrix((columns, depth), order))
        if isinstance(weight, PackedWeights):
            result = product_in_bytes(self, x, weight)
        else:
            result = self.op("nn.dense", x, weight)
        self.piece = f"{name}.bias"
        if self.piece not in self.weights.names:
            return result
        shift = np.asarray(self.weights.get(self.piece, (columns,)), np.float32)
        return self.op("add", result, np.ascontiguousarray(shift if order is None else shift[order]))

    def matrix(self, shape: tuple[int, int], order: np.ndarray | None) -> PackedWeights | np.ndarray:
        """Return the matrix `piece`, packed if its product is computed in bytes, or else as float32."""
        weight = self.weights.get(self.piece, shape)
        if order is not None:
            weight = weight.rows(order) if isinstance(weight, BlockWeights) else weight[order]
        if isinstance(weight, np.ndarray):
            return frozen(np.ascontiguousarray(weight, np.float32))
        return PackedWeights.of(weight) if self.options.bytes else frozen(weight.floats())

    def attention(self, y: Operand, layer: int, positions: Operand, tables: tuple[Operand, Operand]) -> Operand:
        """Return attention of the new tokens to the caches, into which their keys and values are written."""
        config, options = self.config, self.options
        parts = []
        for letter, heads in (("q", config.heads), ("k", config.key_heads), ("v", config.key_heads)):
            name = f"blk.{layer}.attn_{letter}"
            order = self.halves_first(heads) if letter != "v" and config.interleaved else None
            rows = heads_of(self, self.product(y, name, heads * config.head_width, config.width, order), heads)
            if letter != "v":
                if f"{name}_norm.weight" in self.weights.names:
                    rows = self.normalized(rows, f"{name}_norm", config.head_width)
                rows = turned(self, rows, config.rotated, *tables, interleaved=False)
            parts.append(rows)
        query, *new = parts
        caches = []
        for kind, rows in zip(("key", "value"), new, strict=True):
            name = f"cache_{layer}_{kind}"
            texts = options.batch if options.slots is None else options.slots
            shape = (texts, config.key_heads, config.context, config.head_width)
            past = self.builder.input(name, shape, options.cache_dtype)
            self.piece = name
            stored = self.cast(rows, options.cache_dtype)
            caches.append(self.op("nn.cache_update", past, stored, positions, *self.slots, axis=2))
            self.states.append((name, past, caches[-1]))
        self.piece = f"blk.{layer}.attention"
        scale = 1 / math.sqrt(config.head_width)
        mixed = self.op("nn.cached_attention", query, *caches, positions, *self.slots, scale=scale)
        joined = joined_heads(self, mixed)
        return self.product(joined, f"blk.{layer}.attn_output", config.width, config.heads * config.head_width)

    def halves_first(self, heads: int) -> np.ndarray:
        """Return the order of columns in which the pairs of a head are in its two halves, and not neighbours.

        Legal: queries and keys change their order in the same way, and only their products are used.
        """
        config = self.config
        pairs = np.arange(config.rotated).reshape(-1, 2).T.reshape(-1)
        head = np.concatenate([pairs, np.arange(config.rotated, config.head_width)])
        return (np.arange(heads)[:, None] * config.head_width + head).reshape(-1)

    def feed_forward(self, y: Operand, layer: int) -> Operand:
        config = self.config
        gate = self.product(y, f"blk.{layer}.ffn_gate", config.hidden, config.width)
        gate = self.activated(gate)
        gate = self.op("multiply", gate, self.product(y, f"blk.{layer}.ffn_up", config.hidden, config.width))
        return self.product(gate, f"blk.{layer}.ffn_down", config.width, config.hidden)

    def activated(self, x: Operand) -> Operand:
        if self.config.activation == "nn.gelu":
            return self.op("nn.gelu", x, approximate="tanh")
        return self.op(self.config.activation, x)

    def rotations(self, positions: Operand) -> tuple[Operand, Operand]:
        """Return cosines and sines [batch, 1, length, rotated / 2] of the angles of the new tokens."""
        config, length = self.config, self.options.length
        self.piece = "rotations"
        steps = config.rope_scale * config.rope_base ** -(np.arange(0, config.rotated, 2) / config.rotated)
        if config.rope_factors is not None:
            steps = steps / config.rope_factors
        angles = np.arange(config.context)[:, None] * steps
        places = self.op("expand_dims", positions, axis=1)
        if not isinstance(length, int) or length != 1:
            line = self.op("arange", start=0, stop=length, step=1, dtype="int32")
            places = self.op("add", places, self.op("expand_dims", line, axis=0))
        tables = (Operand.known(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
        cosine, sine = (self.op("expand_dims", self.op("take", t, places, axis=0), axis=1) for t in tables)
        return cosine, sine
