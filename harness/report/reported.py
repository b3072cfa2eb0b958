"""The records of a report, sorted: those of the newest protocol by page, those of each suite, the superseded ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.report.comparisons import DatasetComparisons, dataset_comparisons, of_scenarios
from harness.report.pages.epochs import full_batches
from harness.report.scopes import newest_protocol
from harness.report.suites.records import SuiteRecords, suite_records
from harness.store.record import StoredRecord


@dataclass(frozen=True)
class Reported:
    """What the pages show: the newest protocol that has good records, and apart from it each older one.

    ``suites`` holds, by name, the records of each machine under the newest protocol that measured the suite;
    ``superseded`` the comparisons of all scenarios by protocol, newest first.
    """

    protocol: int
    trained: list[DatasetComparisons]
    multiplied: list[DatasetComparisons]
    full: list[DatasetComparisons]
    suites: dict[str, list[SuiteRecords]]
    superseded: dict[int, list[DatasetComparisons]]

    @classmethod
    def of(
        cls, results: Path, records: Sequence[StoredRecord], environments: Mapping[str, dict[str, Any]]
    ) -> "Reported":
        """Sort records; those of a protocol newer than the newest good one stand with it in pages of their own."""
        protocol = newest_protocol(records)
        datasets = dataset_comparisons(results, records, environments)
        current = [dataset for dataset in datasets if dataset.scope.protocol == protocol]
        trained = of_scenarios(current, lambda scenario: scenario != "spmm")
        multiplied = of_scenarios(current, lambda scenario: scenario == "spmm", "-kernels")
        suites: dict[str, list[SuiteRecords]] = {}
        for suite in suite_records(results, records, environments, datasets):
            suites.setdefault(suite.suite.name, []).append(suite)
        others = sorted({dataset.scope.protocol for dataset in datasets} - {protocol}, reverse=True)
        superseded = {
            number: of_scenarios(
                [dataset for dataset in datasets if dataset.scope.protocol == number],
                lambda scenario: True,
                f"-protocol-{number}",
            )
            for number in others
        }
        return cls(protocol, trained, multiplied, full_batches(trained), suites, superseded)
