"""The JSON Schema of a record, made from its types: ``python -m harness.store.schema > results/record.schema.json``.

It is for those who read records with other programs. What ties several keys together is in no JSON Schema
(``harness.store.rules``): lists of equal length, keys that the status or the protocol demands, the digest.
"""

import json
from typing import Any

import msgspec

from harness.store.record import Record
from harness.store.rules import CLOSED
from harness.store.sections import SECTIONS

NAME = "record.schema.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a record's file together with its side file."""
    kinds = (Record, *SECTIONS.values())
    (record, *sections), components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    definitions = dict(sorted(components.items()))
    properties = definitions["Record"]["properties"]
    for name, section in zip(SECTIONS, sections, strict=True):
        properties[name] = section
    for kind in CLOSED:
        definitions[kind.__name__]["additionalProperties"] = False
    # Not required of the type: a record that was upgraded when it was read has none.
    definitions["Record"]["required"].append("digest")
    return {"$schema": DIALECT, "$id": NAME, **record, "$defs": definitions}


def schema_text() -> str:
    """Return the text of the file beside the records."""
    return json.dumps(record_schema(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
