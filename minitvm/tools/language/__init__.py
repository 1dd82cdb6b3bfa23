"""Run language models: from text to tokens and back, the choice of tokens, conversations, and a server."""

from __future__ import annotations

from . import server
from .conversation import Conversation
from .model import LanguageModel
from .sampling import Sampling
from .tokenizer import Tokenizer

__all__ = ["Conversation", "LanguageModel", "Sampling", "Tokenizer", "server"]
