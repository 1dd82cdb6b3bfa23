"""A server for a language model, with OpenAI's interface. It continues several texts at once.

clients -> application   checks requests (`fields`), and streams answers
        -> batching      a thread: gives a slot to each text, reads prompts, and continues all texts together
        -> slots         the two programs of the model, whose caches have an entry for each slot
"""

from __future__ import annotations

from .application import ServerLimits, application
from .batching import Batching
from .running import serve
from .slots import SlotModel

__all__ = ["Batching", "ServerLimits", "SlotModel", "application", "serve"]
