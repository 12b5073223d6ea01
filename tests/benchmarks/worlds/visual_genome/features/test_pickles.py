"""Plain pickles are read as pickle reads them; any other is refused and does nothing."""

from __future__ import annotations

import os
import pickle
import pickletools
import struct
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from benchmarks.worlds.visual_genome.features.pickles import RefusedError, load_plain

numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.booleans() | st.none()
arrays = hnp.arrays(
    st.sampled_from(["<f4", ">f4", "f8", "f2", "i8", "u1", "?", "S3", "U3", "c16"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    elements={"allow_nan": False},
)
plain = st.recursive(
    numbers | st.text(max_size=5) | st.binary(max_size=5) | arrays,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and np.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@settings(deadline=None, max_examples=150)
@given(value=plain, protocol=st.integers(0, 5))
def test_plain_data_are_read_as_pickle_reads_them(value: Any, protocol: int) -> None:
    data = pickle.dumps(value, protocol=protocol)
    assert same(pickle.loads(data), load_plain(data))


@pytest.mark.parametrize("protocol", range(6))
def test_numbers_and_containers_of_numpy_and_others(protocol: int) -> None:
    value = [np.float32(0.5), np.int64(7), {1, 2}, frozenset({3}), 1j, OrderedDict(a=1)]
    assert load_plain(pickle.dumps(value, protocol=protocol)) == value
    columns = np.asfortranarray(np.arange(6).reshape(2, 3))
    assert np.array_equal(load_plain(pickle.dumps(columns, protocol=protocol)), columns)


def test_what_python_2_wrote() -> None:
    assert load_plain(b"(dp0\nI9\nI0\nsI25\nI1\ns.") == {9: 0, 25: 1}
    array = (  # cPickle's own bytes for numpy.array([1.5], "<f4"), protocol 2: data are a str
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x01\x85cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R"
        b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x04\x00\x00\xc0?tb."
    )
    assert load_plain(array).tolist() == [1.5]


class Calls:
    """Pickles to a call of anything."""

    def __init__(self, what: Any, *arguments: Any) -> None:
        self.call = (what, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_what_would_run_is_refused_by_name(tmp_path: Path, protocol: int) -> None:
    trace = tmp_path / "trace"
    attacks = {
        f"{os.system.__module__}.system": Calls(os.system, f"touch {trace}"),
        "builtins.eval|__builtin__.eval": Calls(eval, f"open({str(trace)!r}, 'w')"),
        "functools.partial": partial(open, str(trace), "w"),
        "builtins.getattr|__builtin__.getattr": Calls(getattr, "text", "format"),
        "numpy.*fromfile": Calls(np.fromfile, str(trace)),
        "Path": Calls(Path, "x"),
    }
    for name, attack in attacks.items():
        for held in (attack, {"bbox": [attack]}, np.array([attack, 1], object)):
            with pytest.raises(RefusedError, match=f"names .*({name})"):
                load_plain(pickle.dumps(held, protocol=protocol))
    assert not trace.exists()


def test_a_place_far_off_asks_for_no_memory() -> None:
    for place in (1000, 2**31 - 1, 2**32 - 1):
        bomb = b"\x80\x02K\x01r" + struct.pack("<I", place) + b"."
        with pytest.raises(RefusedError, match="a place that is too far"):
            load_plain(bomb)
    with pytest.raises(RefusedError, match="a place that is too far"):
        load_plain(b"I1\np99999999999\n.")


def test_insides_of_numpy_cannot_be_set() -> None:
    """A type that says its numbers are objects would let numpy follow them as addresses."""
    dtype = pickle.dumps(np.arange(2, dtype="<i8"), protocol=2)
    forged = dtype.replace(b"K\x00t", b"K?t")  # the flags of an object's type
    assert forged != dtype
    assert load_plain(forged).tolist() == [0, 1]
    assert load_plain(forged).dtype == np.dtype("<i8")
    huge = dtype.replace(b"K\x02\x85", b"J\xff\xff\xff\x7f\x85")  # two numbers, says it two billion
    assert huge != dtype
    with pytest.raises(RefusedError, match="damaged"):
        load_plain(huge)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "damaged"),
        (b"no pickle at all", "damaged"),
        (pickle.dumps({1: 2})[:-3], "damaged"),
        (b"Pname\n.", "PERSID"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"c__builtin__\nbytes\n(I99999999999\ntR.", "damaged"),
        (pickle.dumps(np.zeros(2, [("a", "i4")])), "other things"),
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x04\x00\x00\x00zlib\x86R.", "zlib"),
    ],
)
def test_what_else_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(RefusedError, match=reason):
        load_plain(data)


def test_any_damage_is_refused_or_plain() -> None:
    rng = np.random.default_rng(0)
    whole = pickle.dumps({"bbox": np.ones((2, 4), "f4"), "names": ["a", 1.5], 7: {1}}, protocol=2)
    opcodes = [ord(code.code) for code in pickletools.opcodes]
    refused = 0
    for _ in range(2000):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)).tolist():
            damaged[place] = rng.choice(opcodes) if rng.random() < 0.5 else rng.integers(256)
        try:
            load_plain(bytes(damaged))
        except RefusedError:
            refused += 1
    assert 0 < refused < 2000
