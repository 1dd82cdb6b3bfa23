"""Language models in folders of Hugging Face: their vocabulary, their template, and conversations."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from minitvm.errors import MinitvmError, ModelError, UnsupportedOperator
from minitvm.frontends.common.decoder import DecoderWeights
from minitvm.frontends.huggingface.importer import HuggingFaceFolder
from minitvm.tools.cli import main
from minitvm.tools.language import Conversation, LanguageModel
from minitvm.tools.language.folder import FolderTokenizer, template_of
from tests.frontends.huggingface.test_folders import write_folder

from . import vocabularies as v

MERGES = [("a", "b"), ("l", "l"), ("Ġ", "a")]
PIECES = {"▁": -9.0, "a": -8.0, "b": -7.0, "▁a": -1.0, "ab": -2.0, "▁ab": -3.0, "ba": -1.5, "aba": -4.0}


def special(*names: str) -> list[Any]:
    return [tokenizers.AddedToken(name, special=True, normalized=False) for name in names]


def of_bytes(begins: bool = False) -> Any:
    """A byte-level vocabulary, the same as `vocabularies.of_bytes`."""
    texts = v.of_bytes(MERGES)["tokenizer.ggml.tokens"]
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab={t: k for k, t in enumerate(texts)}, merges=MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special(*v.SPECIAL))
    if begins:
        first = [("<|im_start|>", 1)]
        tokenizer.post_processor = processors.TemplateProcessing(single="<|im_start|> $A", special_tokens=first)
    return tokenizer


def of_scores() -> Any:
    texts = v.of_scores(PIECES)["tokenizer.ggml.tokens"]
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocab={t: k for k, t in enumerate(texts)}, merges=[("▁", "a"), ("a", "b")], byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(parts)
    tokenizer.add_special_tokens(special("<unk>", "<s>", "</s>"))
    return tokenizer


def vocabulary(folder: Path, tokenizer: Any, config: dict[str, Any] | None = None, **files: Any) -> FolderTokenizer:
    """Write the files of a vocabulary, and read them."""
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return FolderTokenizer(bare(folder, config))


def bare(folder: Path, config: dict[str, Any] | None = None) -> HuggingFaceFolder:
    return HuggingFaceFolder(folder, config or {}, DecoderWeights("", [], lambda _: np.zeros(0)))


@given(data=st.data(), kind=st.sampled_from(["bytes", "scores"]))
def test_tokens_become_the_text_of_the_library(
    data: st.DataObject, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = {"bytes": of_bytes, "scores": of_scores}[kind]()
    if kind not in READ:
        READ[kind] = vocabulary(tmp_path_factory.mktemp(kind), library)
    tokens = data.draw(st.lists(st.integers(0, library.get_vocab_size() - 1), max_size=12))
    expected = library.decode(tokens, skip_special_tokens=True)
    if kind == "bytes" or "\ufffd" not in expected:  # which the library writes once for each byte
        assert READ[kind].decode(tokens) == expected
    text = data.draw(st.text("ab lü😀", max_size=12))
    assert READ[kind].encode(text) == library.encode(text, add_special_tokens=False).ids
    assert READ[kind].decode(READ[kind].encode(text)) == text


READ: dict[str, FolderTokenizer] = {}


def test_begins_and_ends(tmp_path: Path) -> None:
    names = {"bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>", "lstrip": False}}
    tokenizer = vocabulary(tmp_path, of_bytes(), tokenizer_config=names, config={"eos_token_id": 7})
    assert (tokenizer.begin, tokenizer.end, tokenizer.ends) == (1, 2, {0, 2, 7})
    assert tokenizer.encode("<|im_start|>a") == [1, *tokenizer.encode("a")]
    several = {"generation_config": {"eos_token_id": [9, 11]}, "tokenizer_config": names}
    tokenizer = vocabulary(tmp_path, of_bytes(begins=True), **several)
    assert tokenizer.ends == {0, 2, 9, 11}
    assert tokenizer.encode("a")[0] == 1
    assert tokenizer.encode("<|im_start|>a").count(1) == 1


def test_a_limit_on_lengths_is_not_applied(tmp_path: Path) -> None:
    """A file may limit its texts for training. A longer prompt would lose its end then."""
    library = of_bytes()
    library.enable_truncation(3)
    library.enable_padding(length=8)
    tokenizer = vocabulary(tmp_path, library)
    assert tokenizer.decode(tokenizer.encode("b" * 20)) == "b" * 20
    assert len(tokenizer.encode("b")) == 1


def test_templates(tmp_path: Path) -> None:
    assert template_of(bare(tmp_path)) is None
    entries = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]
    for entry, expected in (("one", "one"), (entries, "yes"), (entries[:1], None)):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": entry}))
        assert template_of(bare(tmp_path)) == expected
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": 3}')
    with pytest.raises(ModelError, match="chat_template is no text"):
        template_of(bare(tmp_path))
    (tmp_path / "chat_template.jinja").write_text("of a file")
    assert template_of(bare(tmp_path)) == "of a file"
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(ModelError, match=r"chat_template.jinja cannot be read"):
        template_of(bare(tmp_path))


def test_refusals(tmp_path: Path) -> None:
    for content, text in (
        (None, r"tokenizer.json: no such file"), ("{", "is not a file of JSON"), ("[]", "contains no table"),
        ('{"a": 1}', "contains no vocabulary that the package tokenizers reads"),
    ):  # fmt: skip
        if content is not None:
            (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(ModelError, match=text):
            FolderTokenizer(bare(tmp_path))
    with pytest.raises(ModelError, match=r"eos_token is '<none>', wanted a token of tokenizer.json"):
        vocabulary(tmp_path, of_bytes(), tokenizer_config={"eos_token": "<none>"})
    (tmp_path / "tokenizer_config.json").unlink()
    for entry in (262, -1, "2", [0, 1.5], True):
        with pytest.raises(ModelError, match=r"generation_config.json: eos_token_id is .*, wanted some of 262 tokens"):
            vocabulary(tmp_path, of_bytes(), generation_config={"eos_token_id": entry})
    (tmp_path / "generation_config.json").unlink()
    library = of_bytes()
    library.decoder = decoders.WordPiece()
    with pytest.raises(UnsupportedOperator, match="tokens become text by WordPiece"):
        vocabulary(tmp_path, library)
    far = json.loads(of_bytes().to_str())
    far["model"]["vocab"]["far"] = 2**31
    (tmp_path / "tokenizer.json").write_text(json.dumps(far))
    with pytest.raises(ModelError, match="has 263 tokens with numbers up to 2147483648, wanted fewer holes"):
        FolderTokenizer(bare(tmp_path))


ENTRIES = st.sampled_from(
    [None, 0, -1, 2**31, 2**64, 1.5, "", "x", "\0", "a" * 2000, [], {}, True, [1, [2]], {"content": 3}, math.nan]
)


@given(data=st.data(), kind=st.sampled_from([of_bytes, of_scores]))
def test_a_wrong_entry_is_refused_in_words(
    data: st.DataObject, kind: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Or the vocabulary is another correct one, which splits a text."""
    place = tmp_path_factory.getbasetemp() / "wrong"
    place.mkdir(exist_ok=True)
    names = {"bos_token": "<s>", "eos_token": {"content": "<|im_end|>"}, "chat_template": [{"name": "a"}]}
    files = {
        "tokenizer": json.loads(kind().to_str()), "generation_config": {"eos_token_id": [2, 0]},
        "tokenizer_config": {k: n for k, n in names.items() if k != ("bos_token", "eos_token")[kind is of_scores]},
    }  # fmt: skip
    table: Any = files[data.draw(st.sampled_from(sorted(files)), "file")]
    while True:
        keys = list(table) if isinstance(table, dict) else list(range(len(table)))
        key = data.draw(st.sampled_from(keys), "entry")
        if not (isinstance(table[key], dict | list) and table[key] and data.draw(st.booleans(), "deeper")):
            break
        table = table[key]
    if data.draw(st.booleans(), "without"):
        del table[key]
    else:
        table[key] = data.draw(ENTRIES, "value")
    for name, content in files.items():
        (place / f"{name}.json").write_text(json.dumps(content))
    try:
        template_of(bare(place))
        tokenizer = FolderTokenizer(bare(place))
        tokenizer.decode([*tokenizer.encode("<s>aü <|im_end|>"), *range(300)])
    except MinitvmError as error:
        assert 0 < len(str(error)) < 600


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder, and a GGUF file of the same model in it."""
    place = tmp_path_factory.mktemp("language") / "tiny"
    place.mkdir()
    sizes = {"vocabulary": 262, "context": 64, "depth": 1, "words": v.of_bytes(MERGES)}
    config = {"vocab_size": 262, "num_hidden_layers": 1, "max_position_embeddings": 64, "eos_token_id": 2}
    write_folder(place, "qwen2", model=sizes, **config)
    of_bytes().save(str(place / "tokenizer.json"))
    names = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "chat_template": v.TEMPLATE}
    (place / "tokenizer_config.json").write_text(json.dumps(names))
    return place


def test_a_conversation_is_that_of_the_same_model_in_gguf(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers, tokens = [], []
    for path in (folder, folder / "same.gguf"):
        model = LanguageModel(path, threads=1)
        answers.append("".join(Conversation(model, system="Be brief.").answer("Hi", 8)))
        tokens.append(model.tokens)
        assert (model.context, model.tokenizer.ends) == (64, {0, 2})
    assert answers[0] == answers[1]
    assert tokens[0] == tokens[1]
    assert main(["chat", str(folder), "--threads", "1", "--count", "2", "--prompt", "Hi"]) == 0
    assert "tiny: ready in" in capsys.readouterr().err


def test_commands_read_folders(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(folder), "--shape", "tokens=1,2", "--level", "graph"]) == 0
    assert "nn.cached_attention" in capsys.readouterr().out
    for command in (["show", "--level", "graph"], ["chat"]):
        assert main([*command, str(tmp_path)]) == 2
        assert f"{tmp_path} is a folder" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("[]")
    for command in (["show", "--level", "graph"], ["chat"]):
        assert main([*command, str(tmp_path)]) == 2
        assert "config.json contains no table" in capsys.readouterr().err
