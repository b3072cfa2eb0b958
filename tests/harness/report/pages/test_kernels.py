"""Page of aggregations: compared engines, large matrices, explanations of large distances from the ceiling."""

from pathlib import Path

import pytest

from harness.report.comparisons import dataset_comparisons, of_scenarios
from harness.report.pages import kernels
from harness.report.write import write_reports
from harness.store.files import environment_of, find_records
from tests.harness.report.aggregations import aggregation, line_with


def test_means_keep_large_and_small_and_sums_and_attention_apart(page: tuple[Path, str]) -> None:
    large, small, gat = (
        line_with(page[1], start)
        for start in ("spmm (gcn, sage), nnz > 10^6", "spmm (gcn, sage), nnz ≤ 10^6", "gat, nnz > 10^6")
    )
    assert float(large[2].rstrip("x")) == pytest.approx(2, rel=0.1)
    assert float(small[2].rstrip("x")) == pytest.approx(0.5, rel=0.1)
    assert float(gat[2].rstrip("x")) == pytest.approx(8, rel=0.1)
    assert [large[5], small[5], gat[5]] == ["0", "1", "0"]


def test_an_order_is_a_table_of_its_own(page: tuple[Path, str]) -> None:
    titles = [line for line in page[1].splitlines() if line.startswith("## cora: ")]
    assert len(titles) == 3
    assert sum("random order" in title for title in titles) == 1


def test_a_row_shows_phases_bandwidth_ceiling_and_memory(page: tuple[Path, str]) -> None:
    table = page[1][page[1].index("## cora: gcn, spmm, 64 wide, cpu") :]
    cells = line_with(table, "blocksparse")
    assert [float(cells[place]) for place in (2, 3)] == pytest.approx([4, 5], rel=0.05)
    assert float(cells[5]) == pytest.approx(100, rel=0.05)  # 1e9 bytes in 10 ms
    assert cells[6:10] == ["1.5", "50%", "20%", "87.0%"]
    assert cells[10] == "391 MiB"


def test_a_large_table_below_three_quarters_of_the_ceiling_is_explained(page: tuple[Path, str]) -> None:
    explanation = page[1][page[1].index("## Below three quarters") : page[1].index("## How to read it")]
    bound = "cora, gcn, 64 wide: 50%. The bound is reading the rows in order"
    assert f"{bound}; 87% of the accesses to rows hit the modelled caches" in explanation
    assert "random order" not in explanation  # a small matrix


def test_every_record_is_linked_by_a_page(page: tuple[Path, str]) -> None:
    pages = "".join(path.read_text() for path in (page[0] / "reports").glob("*.md"))
    assert all(path.name in pages for path, _ in find_records(page[0] / "results"))


def test_a_table_without_our_engine_is_left_out(tmp_path: Path) -> None:
    aggregation(tmp_path, "dgl", 0.02)
    records = list(find_records(tmp_path))
    environments = {record["environment"]: environment_of(tmp_path, record["environment"]) for _, record in records}
    parts = of_scenarios(dataset_comparisons(tmp_path, records, environments), lambda scenario: scenario == "spmm")
    assert [len(part.comparisons) for part in parts] == [1]
    assert kernels.aggregations(parts) == []
    write_reports(tmp_path, tmp_path / "reports")
