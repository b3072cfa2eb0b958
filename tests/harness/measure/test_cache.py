"""The cache model against a plain simulator, and what must hold for any graph."""

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.csr import Csr, csr_from_edges
from harness.measure.cache import ASSUMED, Cache, lru_misses, machine_caches, simulate, touched_lines

SMALL = (Cache("L1d", 8 * 64, 2, 64), Cache("L2", 64 * 64, 4, 64))
LARGE = (Cache("L1d", 1 << 10, 2, 64), Cache("L2", 1 << 24, 16, 64))


def plain_misses(lines: list[int], sets: int, ways: int) -> list[int]:
    """Walk one access at a time through a dictionary per set, least recently used first."""
    contents: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(sets)]
    missed = []
    for line in lines:
        lines_of_set = contents[line % sets]
        if line in lines_of_set:
            lines_of_set.move_to_end(line)
            continue
        missed.append(line)
        lines_of_set[line] = None
        if len(lines_of_set) > ways:
            lines_of_set.popitem(last=False)
    return missed


def random_csr(nodes: int, edges: int, seed: int) -> Csr:
    generator = np.random.default_rng(seed)
    return csr_from_edges(generator.integers(0, nodes, edges), generator.integers(0, nodes, edges), (nodes, nodes))


def spmm(csr: Csr, width: int = 16, count: int = 1, name: str = "one") -> dict[str, Any]:
    return {"name": name, "csr": csr, "width": width, "itemsize": 4, "count": count}


@given(
    st.lists(st.integers(0, 200), max_size=400),
    st.sampled_from([1, 2, 3, 7, 16, 32, 48]),
    st.integers(1, 9),
    st.sampled_from([np.int32, np.int64]),
)
def test_misses_equal_a_plain_simulator(lines: list[int], sets: int, ways: int, dtype: type) -> None:
    cache = Cache("any", sets * ways * 64, ways, 64)
    assert lru_misses(np.array(lines, dtype=dtype), cache).tolist() == plain_misses(lines, sets, ways)


@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([4, 28, 64, 100, 128, 256, 384, 600]))
def test_levels_see_the_misses_of_the_one_before(seed: int, nodes: int, row_bytes: int) -> None:
    csr = random_csr(nodes, 300, seed)
    hit_rates = simulate([spmm(csr, row_bytes // 4)], 10**9, SMALL)
    lines = [
        line
        for source in csr.indices.tolist()
        for line in range(source * row_bytes // 64, (source * row_bytes + row_bytes - 1) // 64 + 1)
    ]
    for cache, level in zip(SMALL, hit_rates["levels"], strict=True):
        missed = plain_misses(lines, cache.sets, cache.ways)
        assert (level["accesses"], level["hits"]) == (len(lines), len(lines) - len(missed))
        lines = missed
    assert hit_rates["hit_rate"] == pytest.approx(1 - len(lines) / hit_rates["levels"][0]["accesses"])
    assert hit_rates["sampled"] == 1.0


def test_narrow_rows_share_lines_and_wide_rows_span_several() -> None:
    assert touched_lines(np.array([0, 1, 2]), 28, 64).tolist() == [0, 0, 0, 1]
    assert touched_lines(np.array([2, 0]), 128, 64).tolist() == [4, 5, 0, 1]
    assert touched_lines(np.array([], dtype=np.int64), 128, 64).tolist() == []


def test_a_graph_that_fits_misses_only_once_per_line() -> None:
    csr = random_csr(500, 20_000, seed=1)
    hit_rates = simulate([spmm(csr, width=32)], 10**9, LARGE)
    cold = 2 * len(np.unique(csr.indices))
    assert hit_rates["hit_rate"] == pytest.approx(1 - cold / (2 * csr.nnz))


def test_the_order_of_rows_matters() -> None:
    """Communities of 32 nodes, then the same graph with its nodes shuffled."""
    generator = np.random.default_rng(0)
    destinations = np.repeat(np.arange(4096), 16)
    sources = destinations // 32 * 32 + generator.integers(0, 32, len(destinations))
    shuffled = generator.permutation(4096)
    ordered = csr_from_edges(sources, destinations, (4096, 4096))
    random = csr_from_edges(shuffled[sources], shuffled[destinations], (4096, 4096))
    rates = [simulate([spmm(csr)], 10**9, SMALL)["hit_rate"] for csr in (ordered, random)]
    assert rates[0] > 0.9
    assert rates[1] < 0.3


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_a_sample_states_its_fraction_and_comes_near(fraction: float) -> None:
    csr = random_csr(2000, 200_000, seed=2)
    whole, part = (simulate([spmm(csr)], budget, SMALL) for budget in (10**9, int(fraction * csr.nnz)))
    assert part["sampled"] == pytest.approx(fraction, rel=0.01)
    assert part["hit_rate"] == pytest.approx(whole["hit_rate"], abs=0.01)
    assert part["levels"][0]["accesses"] == whole["levels"][0]["accesses"] == csr.nnz
    assert part == simulate([spmm(csr)], int(fraction * csr.nnz), SMALL)


def test_a_hub_stays_within_the_budget() -> None:
    csr = csr_from_edges(np.arange(10_000), np.zeros(10_000, dtype=np.int64), (10_000, 10_000))
    hit_rates = simulate([spmm(csr)], 1000, SMALL)
    assert hit_rates["sampled"] <= (1000 + 16) / 10_000
    assert hit_rates["hit_rate"] == 0.0


def test_spmms_are_weighted_by_their_counts() -> None:
    hot = csr_from_edges(np.zeros(100, dtype=np.int64), np.arange(100), (100, 100))
    cold = csr_from_edges(np.arange(100), np.arange(100), (100, 100))
    hit_rates = simulate([spmm(hot, count=3, name="hot"), spmm(cold, name="cold")], 10**9, SMALL)
    assert [row["name"] for row in hit_rates["per_spmm"]] == ["hot", "cold"]
    assert [row["hit_rate"] for row in hit_rates["per_spmm"]] == [0.99, 0.0]
    assert hit_rates["levels"][0]["accesses"] == 400
    assert hit_rates["hit_rate"] == pytest.approx(3 * 99 / 400)


def test_no_gathers_have_no_hit_rate() -> None:
    none = np.zeros(0, dtype=np.int64)
    empty = csr_from_edges(none, none, (4, 4))
    assert simulate([spmm(empty)], 100, SMALL)["hit_rate"] is None
    assert simulate([], 100, SMALL)["hit_rate"] is None


def write_index(folder: Path, number: int, values: dict[str, str]) -> None:
    index = folder / f"index{number}"
    index.mkdir()
    for name, value in values.items():
        (index / name).write_text(value + "\n")


def index_of(level: int, kind: str, size: str, ways: int) -> dict[str, str]:
    description = {"level": str(level), "type": kind, "size": size}
    return description | {"ways_of_associativity": str(ways), "coherency_line_size": "64"}


def test_sizes_are_read_from_the_machine(tmp_path: Path) -> None:
    write_index(tmp_path, 0, index_of(1, "Data", "32K", 8))
    write_index(tmp_path, 1, index_of(1, "Instruction", "32K", 8))
    write_index(tmp_path, 2, index_of(2, "Unified", "2M", 16))
    assert machine_caches(tmp_path) == ((Cache("L1d", 1 << 15, 8, 64), Cache("L2", 1 << 21, 16, 64)), "sysfs")


@pytest.mark.parametrize("described", ["nothing", "no ways", "half"])
def test_sizes_are_assumed_where_the_machine_hides_them(described: str, tmp_path: Path) -> None:
    values = index_of(1, "Data", "32K", 0)
    if described == "half":
        del values["size"]
    if described != "nothing":
        write_index(tmp_path, 0, values)
    assert machine_caches(tmp_path) == (ASSUMED, "assumed")


def test_this_machine_has_caches_that_grow() -> None:
    caches, _ = machine_caches()
    assert [cache.bytes for cache in caches] == sorted(cache.bytes for cache in caches)
    assert simulate([spmm(random_csr(50, 500, 3))], 10**6)["hit_rate"] > 0.5
