"""Pinned hashes: cells and groups of the committed records keep their identity.

``hashes.json`` maps a command line to the hash of its first cell and the digest of that cell's group key, as they were
when the committed records were written. Changing a hash on purpose orphans every record of such cells.
"""

import json
from pathlib import Path

import pytest

from datasets.hashes import digest
from harness.planning.cells import resolve_cell
from harness.planning.compose import Composition, compose_one
from harness.planning.config import load
from harness.planning.plan import group_key
from harness.planning.suite import expand

PINS = json.loads((Path(__file__).parent / "hashes.json").read_text())


@pytest.mark.parametrize("line", PINS)
def test_a_cell_and_its_group_keep_their_hashes(line: str) -> None:
    overrides = line.split()
    composition, suite = next(expand(Composition(compose_one(overrides), overrides)))
    config = load(composition.values)
    assert [resolve_cell(config).hash, digest(group_key(config, suite.vary if suite else []))] == PINS[line]
