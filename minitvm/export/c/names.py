"""C identifiers for the names of a model: legal in C and C++, no usual macro, and different from each other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# Words of C and C++, and lower-case macros that the headers of common systems define.
_RESERVED = """
alignas alignof and and_eq asm atomic auto bitand bitor bool break case catch char char8_t char16_t char32_t class
compl complex concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype
default delete do double dynamic_cast else enum explicit export extern false far final float for friend fortran
goto huge i386 if imaginary import inline int interface linux long main major minor module mutable namespace near
new noexcept noreturn not not_eq nullptr operator or or_eq override private protected public register
reinterpret_cast requires restrict return short signed sizeof small static static_assert static_cast stderr stdin
stdout struct switch template this thread_local throw true try typedef typeid typename typeof typeof_unqual union
unix unsigned using virtual void volatile wchar_t while xor xor_eq assert errno max min offsetof setjmp vax
"""
RESERVED = frozenset(_RESERVED.split())


def identifier(text: str) -> str:
    """Return a legal identifier that resembles `text`; two texts may have the same identifier.

    For example, "input.1" becomes "input_1" and "1" becomes "value_1".
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-zA-Z0-9]+", "_", plain).strip("_")
    if not name or name[0].isdigit():
        name = f"value_{name}".rstrip("_")
    # A name of capitals alone may be a macro (EOF, NAN); macros of one letter are rare, and "X" is a usual input.
    return f"{name}_" if name in RESERVED or name == "I" or (len(name) > 1 and name.upper() == name) else name


def unique(texts: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Return an identifier for each text; no two of them are equal, nor equal to one of `taken`."""
    used, names = set(taken), []
    for text in texts:
        name = base = identifier(text)
        number = 2
        while name in used:
            # What ends in _ would be a word or a macro without it.
            name, number = f"{base.rstrip('_')}_{number}{'_' if base.endswith('_') else ''}", number + 1
        used.add(name)
        names.append(name)
    return names


def quoted(text: str) -> str:
    """Return a text as a C string literal. Other than ASCII characters are bytes of UTF-8 as octal escapes."""
    escapes = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("?"): "\\?"}
    letters = [
        escapes.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
        for byte in text.encode("utf-8", "replace")
    ]
    return f'"{"".join(letters)}"'


def comment(text: str) -> str:
    """Return a text for the inside of a C comment: one line of ASCII that does not end the comment."""
    line = text.encode("ascii", "backslashreplace").decode()
    return re.sub(r"[\x00-\x1f\x7f]", " ", line).replace("*/", "* /").replace("/*", "/ *")
