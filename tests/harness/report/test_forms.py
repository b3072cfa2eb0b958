"""The forms of the peers that were tried."""

from pathlib import Path

from harness.report.write import write_reports
from tests import factory
from tests.harness.report.aggregations import line_with


def test_every_form_of_a_peer_is_listed_with_its_time_or_status(tmp_path: Path) -> None:
    results = tmp_path / "results"
    forms = (("scatter", 0.04, "tuned"), ("csr", 0.02, "tuned"), ("csr", 0.03, "stock"))
    factory.write(results, factory.record("blocksparse", 0, 0.01))
    for variant, seconds, allocator in forms:
        config = factory.config("pyg", 0, backend={"variant": variant}, launcher={"allocator": allocator})
        factory.write(results, factory.record("pyg", 0, seconds, config=config), folder=f"{variant}-{allocator}")
    broken = factory.config("pyg", 0, backend={"variant": "compile"})
    factory.write(results, factory.record("pyg", 0, status="oom", config=broken), folder="compile")
    write_reports(results, tmp_path / "reports")
    text = (tmp_path / "reports" / "epochs.md").read_text()
    peer, count, fastest, spread, listed = line_with(text[text.index("Forms of the peers") :], "cora: gat")[1:]
    assert (peer, count, fastest) == ("pyg", "4", "pyg csr")
    assert 1.8 < float(spread) < 2.2
    names = [form.rsplit(" ", 1)[0] for form in listed.split("; ")]
    assert names == ["pyg csr", "pyg csr stock", "pyg scatter", "pyg compile ✗"]
