"""The JSON Schema beside the records is the one of the types."""

from pathlib import Path

from harness.store import schema
from harness.store.record import KEYS

RESULTS = Path(__file__).resolve().parents[3] / "results"


def test_the_schema_beside_the_records_is_that_of_the_types() -> None:
    text = (RESULTS / schema.NAME).read_text()
    command = "run python -m harness.store.schema > results/record.schema.json"
    assert text == schema.schema_text(), command


def test_the_schema_says_what_a_reader_needs() -> None:
    written = schema.record_schema()
    record = written["$defs"]["Record"]
    assert written["$schema"].endswith("2020-12/schema")
    assert set(record["properties"]) == set(KEYS) and record["additionalProperties"] is False
    assert {"status", "config", "digest"} <= set(record["required"])
    assert written["$defs"]["Epochs"]["properties"]["seconds"]["items"]["exclusiveMinimum"] == 0
    assert record["properties"]["config"] == {"$ref": "#/$defs/RecordedConfig"}
