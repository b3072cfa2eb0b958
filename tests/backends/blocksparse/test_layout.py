"""Layouts are arithmetic: every pair of blocks belongs to one rank, groups cover the ranks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.blocksparse.layout import RankLayout, replications


@st.composite
def layouts(draw):
    ranks = draw(st.integers(1, 64))
    return RankLayout(ranks, draw(st.sampled_from(replications(ranks))))


@given(layouts())
def test_every_pair_of_blocks_is_multiplied_by_one_rank(layout):
    pairs = [
        (layout.place(rank)[0], stage) for rank in range(layout.ranks) for stage in layout.stages(layout.place(rank)[1])
    ]
    assert sorted(pairs) == [(row, column) for row in range(layout.blocks) for column in range(layout.blocks)]


@given(layouts())
def test_columns_share_the_stages_evenly_and_none_is_idle(layout):
    counts = [len(layout.stages(column)) for column in range(layout.replication)]
    assert min(counts) >= 1 and max(counts) - min(counts) <= 1
    assert all(stage in layout.stages(layout.column_of(stage)) for stage in range(layout.blocks))


@given(layouts())
def test_groups_cut_the_ranks(layout):
    for groups in (
        [layout.row_group(block) for block in range(layout.blocks)],
        [layout.column_group(column) for column in range(layout.replication)],
    ):
        assert sorted(rank for group in groups for rank in group) == list(range(layout.ranks))
    for rank in range(layout.ranks):
        block, column = layout.place(rank)
        assert layout.rank_of(block, column) == rank
        assert rank in layout.row_group(block) and rank in layout.column_group(column)


@given(layouts(), st.integers(1, 70))
def test_a_small_graph_has_as_many_row_blocks_as_it_can(layout, rows):
    within = layout.within(rows)
    assert within.blocks == min(layout.blocks, rows) and within.replication <= layout.replication
    assert within == layout if layout.blocks <= rows else within.replication == min(layout.replication, rows)


def test_the_papers_examples():
    assert [list(RankLayout(4, 2).stages(column)) for column in range(2)] == [[0], [1]]
    assert [list(RankLayout(8, 2).stages(column)) for column in range(2)] == [[0, 1], [2, 3]]
    assert RankLayout(8).blocks == 8 and list(RankLayout(8).stages(0)) == list(range(8))


@pytest.mark.parametrize(
    ("ranks", "replication", "message"),
    [
        (0, 1, "ranks=0 is not allowed"),
        (6, 4, "allowed are 1, 2$"),
        (2, 2, "allowed are 1$"),
        (8, 0, "allowed are 1, 2$"),
        (36, 9, "allowed are 1, 2, 3, 4, 6$"),
    ],
)
def test_layouts_that_cannot_be_say_what_can(ranks, replication, message):
    with pytest.raises(ValueError, match=message):
        RankLayout(ranks, replication)


def test_replications_are_the_divisors_with_a_stage_for_each_column_of_however_many_ranks():
    for ranks in range(1, 200):
        assert replications(ranks) == [r for r in range(1, ranks + 1) if ranks % r == 0 and r <= ranks // r]
    assert max(replications(2_000_000_000)) == 40_000  # at once, not in minutes


def test_more_blocks_than_rows_are_refused():
    RankLayout(4, 2).check_rows(2)
    with pytest.raises(ValueError, match=r"nodes: give at most ranks=3 with replication=1, or replication=2$"):
        RankLayout(4).check_rows(3)
    with pytest.raises(ValueError, match=r"make 5 row blocks, the graph has 4 nodes: give at most ranks=4 with rep"):
        RankLayout(5).check_rows(4)  # no replication divides 5 ranks
    with pytest.raises(ValueError, match=r"give at most ranks=4 with replication=2$"):
        RankLayout(16, 4).check_rows(2)  # 8 ranks would be 4 replicas of 2 blocks
