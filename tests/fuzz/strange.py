"""Bad input: a valid document, changed in its structure or in its bytes, and plain noise.

``FUZZ_EXAMPLES`` says how many examples each test has; ``make fuzz`` sets it high.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

F = TypeVar("F", bound=Callable[..., Any])

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "25"))
_COMMON = {
    "suppress_health_check": list(HealthCheck),
    # To shrink a failure takes minutes: worth it where somebody looks for them.
    "phases": tuple(Phase) if EXAMPLES > 25 else (Phase.explicit, Phase.reuse, Phase.generate),
}


def fuzzed(share: float = 1.0) -> Callable[[F], F]:
    """:param share: of the usual number of examples, where one is slow."""
    return settings(max_examples=max(5, int(EXAMPLES * share)), **_COMMON)  # type: ignore[arg-type,return-value]


ODD_TEXTS = (
    *("", " ", ".", "..", "../x", "/etc/passwd", "a/../../b", "~", "%2e%2e%2f", "\0", "a\0b", "\n", "\r\n", "\x1b[2J"),
    *("\ud800", "\udcff", "\u202e", "\u0661\u0662", "٣", "１", "é", "e\u0301", "\U0001f600", "\ufeff", "\u2028"),
    *("-1", "-0", "+1", "1_000", "1e309", "NaN", "Infinity", "0x10", "9" * 400, "9" * 5000, "null", "true", "[]", "{}"),
    *("{{ x }}", "}}", "%s", "${x}", "$(x)", "; ls", "'", '"', "\\", "`", "a" * 300, "a" * 70_000),
    *("[" * 5000, '{"a":' * 5000, '"' * 100, ",,,", "a,b,c", "a,0,1\na,0,1", "topic:a,partition:0,offset:1"),
    *(
        "now-99999999999999d",
        "P99999999999W",
        "-P1D",
        "PT",
        "P",
        "now-",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01+23:59",
    ),
)
ODD_NUMBERS = (
    *(0, 1, -1, -2, -1001, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 10**4000, 10**9),
    *(0.0, -0.0, 0.5, 1e308, -1e308, 1.0, float("nan"), float("inf"), float("-inf"), 1e22),
)

texts = st.sampled_from(ODD_TEXTS) | st.text(max_size=12) | st.text(st.characters(), max_size=6)
numbers = st.sampled_from(ODD_NUMBERS) | st.integers() | st.floats()
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def noise() -> st.SearchStrategy[bytes]:
    return st.binary(max_size=200) | texts.map(lambda text: text.encode("utf-8", "surrogatepass"))


@st.composite
def changed(draw: st.DrawFn, seeds: Any) -> Any:
    """A copy of one of ``seeds`` (JSON values) with one to three changes somewhere in it."""
    value = copy.deepcopy(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 3))):
        places = [((), value), *_places(value)]
        path, found = draw(st.sampled_from(places))
        value = _replaced(value, path, draw(_instead_of(found)))
    return value


@st.composite
def changed_bytes(draw: st.DrawFn, seeds: Any) -> bytes:
    """A copy of one of ``seeds`` (bytes) with some cut out, put in, doubled or overwritten."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 3))):
        at, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        put = draw(st.binary(max_size=6) | noise() | st.just(data[at:end]) | st.just(b""))
        data = data[:at] + put + data[draw(st.sampled_from((at, at + len(put), end))) :]
    return data


@st.composite
def changed_text(draw: st.DrawFn, seeds: Any) -> str:
    """The same of texts, and odd ones."""
    data = draw(changed_bytes([seed.encode() for seed in seeds]))
    return draw(st.sampled_from((data.decode("utf-8", "surrogateescape"), data.decode("latin-1"))) | texts)


def _instead_of(found: Any) -> st.SearchStrategy[Any]:
    near: list[Any] = []
    if isinstance(found, dict):
        keys = list(found)
        near += [{k: v for k, v in found.items() if k != key} for key in keys[:40]]
        near += [{**found, text: 1} for text in ODD_TEXTS[:20]] + [list(found.items())]
    elif isinstance(found, list):
        near += [[], found[:-1], found + found, found[::-1], [found], dict(enumerate(map(str, found)))]
    elif isinstance(found, str):
        near += [found + "\0", f"../{found}", found.upper(), found[:-1], [found], {found: found}, found * 50]
    elif isinstance(found, int):
        near += [found + 1, found - 1, -found, repr(found % 10**99), [found], not found, found * 10**9]
    return values | st.sampled_from(near) if near else values


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, found in inner:
        yield (*path, key), found
        yield from _places(found, (*path, key))


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    value[path[0]] = _replaced(value[path[0]], path[1:], new)
    return value
