"""Stop strings in a text that comes in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minitvm.tools.language.server.answers import StopText


def by_definition(text: str, stops: list[str]) -> str:
    """The text before the stop string that ends first, and of those that end there, before the longest one."""
    for end in range(len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))]
    return text


@given(
    pieces=st.lists(st.text("ab", max_size=4), max_size=8),
    stops=st.lists(st.text("abc", min_size=1, max_size=4), max_size=3),
)
def test_a_text_ends_before_its_first_stop_string(pieces: list[str], stops: list[str]) -> None:
    stop, result = StopText(stops), ""
    expected = by_definition("".join(pieces), stops)
    for number, piece in enumerate(pieces):
        result += stop.push(piece)
        assert expected.startswith(result), "a text that was sent is not taken back"
        whole = "".join(pieces[: number + 1])
        if not stop.is_stopped:
            assert len(whole) - len(result) < max(map(len, stops), default=1), "no more waits than a stop string needs"
        else:
            break
    result += stop.end()
    assert result == expected
    assert stop.is_stopped == (expected != "".join(pieces))
