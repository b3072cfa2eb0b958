"""Combined hashes depend on contents, names and options."""

from datasets.hashes import combined_sha256


def test_the_combined_hash_depends_on_contents_names_and_options() -> None:
    base = {"a": "1", "b": "2"}
    assert combined_sha256(base) == combined_sha256({"b": "2", "a": "1"}) == combined_sha256(base, {})
    others = [({"a": "2", "b": "1"}, {}), ({"a": "1"}, {}), (base, {"split_seed": 1}), (base, {"split_seed": 2})]
    assert len({combined_sha256(*other) for other in others} | {combined_sha256(base)}) == 5
