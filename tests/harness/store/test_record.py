"""Keys of a record."""

from harness.store.record import KEYS, MEASURED


def test_every_key_of_a_record_is_known() -> None:
    assert set(MEASURED) <= set(KEYS)
