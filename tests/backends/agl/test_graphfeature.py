"""GraphFeature records as protobuf: the batch encoder against Google's runtime, and errors of damaged bytes."""

import re

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from backends.agl.graphfeature import FIELDS, SCHEMA, Records, decode, encode
from backends.kernels.graphfeatures import CorruptRecord
from datasets.features import SparseFeatures, in_layout


def message_class():
    """Build the message of the schema file, whose one message has scalar fields only."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="test.proto", package="agl", syntax="proto3")
    message = file.message_type.add(name="GraphFeature")
    for repeated, kind, name, number in re.findall(r"^  (repeated )?(\w+) (\w+) = (\d+);", SCHEMA.read_text(), re.M):
        message.field.add(
            name=name,
            number=int(number),
            type=getattr(kinds, f"TYPE_{kind.upper()}"),
            label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("agl.GraphFeature"))


GraphFeature = message_class()
IDS = st.integers(-(2**62), 2**62)


@st.composite
def records(draw):
    hops = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 8)), min_size=1, max_size=4))
    nodes, edges = (np.concatenate(([0], np.cumsum([size[i] for size in sizes]))) for i in (0, 1))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    n, m = int(nodes[-1]), int(edges[-1])
    in_edges = np.concatenate(
        [random.multinomial(many, np.ones(nodes_of_record) / nodes_of_record) for nodes_of_record, many in sizes]
    )
    width, edge_width, classes = (draw(st.integers(0, 3)) for _ in range(3))
    return Records(
        hops=hops,
        node_bounds=nodes,
        edge_bounds=edges,
        ids=np.array(draw(st.lists(IDS, min_size=n, max_size=n)), dtype=np.int64),
        distance=np.concatenate(
            [[0, *np.sort(random.integers(1, hops + 1, nodes_of_record - 1))] for nodes_of_record, _ in sizes]
        ).astype(int),
        in_edges=in_edges,
        sources=np.concatenate([random.integers(0, nodes_of_record, many) for nodes_of_record, many in sizes]),
        ranks=random.integers(0, 300, m),
        edge_ids=np.array(draw(st.lists(IDS, min_size=m, max_size=m)), dtype=np.int64),
        degrees=random.integers(0, 2**31, n),
        labels=random.integers(-1, 5, (len(sizes), classes)),
        split=random.integers(0, 4, len(sizes)),
        weighted_degrees=random.normal(size=n) if draw(st.booleans()) else None,
        features=features_of(random, n, width, draw(st.sampled_from(["dense", "sparse", "none"]))),
        edge_weights=random.normal(size=m).astype(np.float32) if m and draw(st.booleans()) else None,
        edge_features=random.normal(size=(m, edge_width)).astype(np.float32) if m and edge_width else None,
    )


def features_of(random, nodes, width, layout):
    if layout == "none" or (not width and layout == "dense"):
        return None
    wide = 100 * width if layout == "sparse" else width
    features = random.normal(size=(nodes, wide)).astype(np.float32)
    return in_layout(np.where(random.random((nodes, wide)) < 0.05, features, 0) if wide > width else features, layout)


def strings_of(pieces):
    return [pieces.data[start:end].tobytes() for start, end in zip(pieces.bounds, pieces.bounds[1:], strict=False)]


@given(records())
def test_decoding_inverts_encoding(records_):
    again = decode(strings_of(encode(records_)))
    for name in Records.__dataclass_fields__:
        mine, back = getattr(records_, name), getattr(again, name)
        assert (mine is None) == (back is None), name
        if isinstance(mine, SparseFeatures):
            assert mine.shape == back.shape
            mine, back = (np.concatenate(features.arrays) for features in (mine, back))
        assert mine is None or np.array_equal(mine, back), name


@given(records())
def test_bytes_are_those_of_the_protobuf_runtime(records_):
    for index, string in enumerate(strings_of(encode(records_))):
        message = GraphFeature.FromString(string)
        assert message.SerializeToString(deterministic=True) == string
        first, last = records_.node_bounds[index : index + 2]
        assert np.cumsum(np.array(message.nodes, dtype=np.int64)).tolist() == records_.ids[first:last].tolist()
        assert (
            list(message.nodes_at) == np.bincount(records_.distance[first:last], minlength=records_.hops + 1).tolist()
        )
        assert list(message.label) == records_.labels[index].tolist()
        if isinstance(records_.features, SparseFeatures):
            own = records_.features[first:last]
            assert list(message.set_features) == own.csr.in_degrees.tolist()
            assert message.feature_values == own.values.tobytes()
            assert message.feature_width == own.shape[1] + 1
        elif records_.features is not None:
            assert message.features == records_.features[first:last].tobytes()


@given(records(), st.data())
def test_a_records_bytes_do_not_depend_on_the_other_records(records_, data):
    strings = strings_of(encode(records_))
    order = data.draw(st.permutations(range(len(strings))))
    assert strings_of(encode(decode([strings[index] for index in order]))) == [strings[index] for index in order]


@given(records(), st.data())
def test_a_truncated_record_is_refused(records_, data):
    string = strings_of(encode(records_))[0]
    cut = data.draw(st.integers(0, len(string) - 1))
    try:
        assert strings_of(encode(decode([string[:cut]]))) == [string[:cut]]  # cut between two optional fields
    except CorruptRecord as error:
        assert "record 0" in str(error) or "edge" in str(error) or "field" in str(error)


def sparse(message):
    """Give the first of two nodes features in columns 1 and 4 of 7."""
    message.set_features.extend([2, 0])
    message.feature_columns.extend([1, 3])
    message.feature_values, message.feature_width = bytes(8), 8


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda message: message.ClearField("nodes"), "nodes is missing"),
        (lambda message: message.in_edges.append(1), "in_edges"),
        (lambda message: message.sources.append(0), "sources"),
        (lambda message: message.degrees.append(3), "degrees"),
        (lambda message: setattr(message, "features", b"12345"), "features"),
        (lambda message: message.set_features.extend([1, 0]), "feature_width"),
        (lambda message: (sparse(message), message.set_features.append(0)), "set_features"),
        (lambda message: (sparse(message), message.feature_columns.append(1)), "feature_values"),
        (lambda message: (sparse(message), message.feature_columns.__setitem__(1, 0)), "ascend"),
        (lambda message: (sparse(message), message.feature_columns.__setitem__(1, 8)), "below feature_width"),
        (lambda message: (sparse(message), setattr(message, "feature_values", b"1234")), "feature_values"),
        (lambda message: (sparse(message), setattr(message, "features", b"12345678")), "dense or sparse"),
    ],
)
def test_fields_that_contradict_each_other_are_named(damage, complaint):
    message = GraphFeature(nodes=[5, 2], nodes_at=[1, 1], in_edges=[1, 0], sources=[1], ranks=[0], edges=[9])
    message.degrees.extend([1, 0])
    assert decode([message.SerializeToString()]).ids.tolist() == [5, 7]
    damage(message)
    with pytest.raises(CorruptRecord, match=complaint):
        decode([message.SerializeToString()])


def test_the_schema_numbers_every_field_once():
    assert len(set(FIELDS.values())) == len(FIELDS) == 17


@given(records(), st.data())
def test_damaged_records_are_read_or_refused_by_their_place(records_, data):
    strings = strings_of(encode(records_))
    place = data.draw(st.integers(0, len(strings) - 1))
    at = data.draw(st.integers(0, len(strings[place]) - 1))
    damaged = strings[place][:at] + bytes([data.draw(st.integers(0, 255))]) + strings[place][at + 1 :]
    others = strings[:place] + strings[place + 1 :]
    try:
        decode([damaged])
    except CorruptRecord as error:
        assert error.record == 0
        with pytest.raises(CorruptRecord) as again:
            decode([*others, damaged])
        assert again.value.record == len(others) or "others" in again.value.reason or "for each" in again.value.reason
        assert f"record {again.value.record}: " in str(again.value)


@given(records(), st.randoms())
def test_fields_may_stand_in_any_order_beside_unknown_ones(records_, random):
    string = strings_of(encode(records_))[0]
    message = GraphFeature.FromString(string)
    parts = [GraphFeature(**{field.name: value}).SerializeToString() for field, value in message.ListFields()]
    assert b"".join(parts) == string
    strange = [
        bytes([0xA2, 0x01, 2, 7, 7]),
        bytes([0xB0, 0x01, 0xFF, 0x01]),
        bytes([0xFA, 0xFF, 0xFF, 0xFF, 0x0F, 1, 9]),
    ]
    parts += strange  # field 20 as bytes, field 22 as a number, the last field that there can be
    random.shuffle(parts)
    assert strings_of(encode(decode([b"".join(parts)]))) == [string]
