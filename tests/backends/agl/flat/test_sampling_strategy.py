"""Sampling strategies of GraphFlat's command line: fanouts per layer, refused texts."""

import pytest

from backends.agl.flat.sampling_strategy import StrategyError, parse_sampling


@pytest.mark.parametrize(
    ("text", "hops", "fanouts"),
    [
        ("uniform(15);uniform(10)", 2, (10, 15)),
        ("random_sampler(limit=4)", 3, (4, 4, 4)),
        ("weighted_sampler(by=weight, limit=2);weighted_sampler(by=weight, limit=3)", 3, (3, 3, 2)),
        ("full()", 2, (None, None)),
    ],
)
def test_hops_of_the_grammar_become_fanouts_of_layers(text, hops, fanouts):
    assert parse_sampling(text, hops).fanouts == fanouts


@pytest.mark.parametrize(
    ("text", "hops", "complaint"),
    [
        ("uniform(15)", 0, "hop 0"),
        ("nearest(3)", 1, "allowed are uniform"),
        ("uniform(0)", 1, "from 1"),
        ("uniform(-3)", 1, "from 1"),
        ("uniform(2.5)", 1, "from 1"),
        ("uniform(2147483648)", 1, "from 1 to 2147483647"),
        ("uniform(3, 5)", 1, "given twice"),
        ("uniform(3, seed=1.5)", 1, "seed=1.5 .* whole number"),
        ("uniform(3, replacement=2)", 1, "replacement=2 .* true or false"),
        ("uniform(3, by=weight)", 1, "reads no column"),
        ("full(replacement=true)", 1, "neither by, replacement nor reverse"),
        ("uniform()", 1, "without limit"),
        ("uniform(2);uniform(3);uniform(4)", 2, "describes 3 hops"),
        ("uniform(2);topk(3)", 2, "differently"),
        ("uniform(limit=2, colour=3)", 1, "allowed are by"),
        ("uniform(limit=two)", 1, "neither"),
        ("full(3)", 1, "no limit"),
        ("uniform(3, reverse=true)", 1, "only topk"),
        ("topk(3, replacement=true)", 1, "replacement"),
        ("", 1, "0 hops"),
    ],
)
def test_a_wrong_strategy_is_refused_with_the_allowed_ones(text, hops, complaint):
    with pytest.raises(StrategyError, match=complaint):
        parse_sampling(text, hops)
