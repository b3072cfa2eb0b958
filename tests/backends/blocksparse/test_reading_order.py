"""The model of the caches follows the rows that a product gathers: panel by panel, or the tiles after the rest."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from backends.ablation import resolve
from backends.blocksparse.adaptive import LEAST_DENSITY
from backends.blocksparse.reading_order import reading_order, reading_orders
from backends.kernels.operand import HUB_EDGES, operand
from backends.kernels.panels import cut_panels
from backends.kernels.tiles import SIDE, find_tiles
from backends.registry import config_class
from datasets.csr import csr_from_edges
from harness.measure.cache import Cache, simulate
from harness.session import Session
from tests.cells import cell, saved_graph

WIDTH = 16


def random_csr(rows, columns, edges):
    draw = np.random.default_rng(edges)
    return csr_from_edges(draw.integers(0, columns, edges), draw.integers(0, rows, edges), (rows, columns))


def in_panels(csr, count):
    side = operand(csr).forward
    side.panels[WIDTH] = cut_panels(side, csr.shape[1], count)
    return side


def test_panels_are_gathered_one_after_the_other_each_by_rows():
    csr, count = random_csr(50, 70, 600), 3
    panels = [
        csr.indices[(csr.indices >= panel * 70 // count) & (csr.indices < (panel + 1) * 70 // count)]
        for panel in range(count)
    ]
    assert reading_order(in_panels(csr, count), WIDTH).tolist() == np.concatenate(panels).tolist()


def test_hubs_are_gathered_whole_after_the_last_panel():
    few, many = np.arange(60) % 20, np.arange(HUB_EDGES + 9) % 20
    rows = np.concatenate([np.arange(60) // 20, np.full(len(many), 1)])
    csr = csr_from_edges(np.concatenate([few, many]), rows, (3, 20))
    order = reading_order(in_panels(csr, 4), WIDTH)
    assert order[40:].tolist() == csr.indices[csr.indptr[1] : csr.indptr[2]].tolist()
    assert order[:40].tolist() == np.repeat(np.arange(20).reshape(4, 1, 5), 2, axis=1).ravel().tolist()


def test_tiles_gather_their_columns_once_after_the_rest():
    csr = random_csr(96, 80, 500)
    side = operand(csr).forward
    side.tiles[WIDTH] = tiles = find_tiles(side, 80, 0.03)
    order = reading_order(side, WIDTH)
    rest = tiles.rest.indices.tolist()
    assert 0 < len(rest) < csr.nnz and order[: len(rest)].tolist() == rest
    assert 64 in tiles.columns  # the border cuts these: 80 columns are 2.5 tiles
    inside = [list(range(at, min(at + SIDE, 80))) for at in tiles.columns.tolist()]
    assert order[len(rest) :].tolist() == list(chain.from_iterable(inside))


def test_only_products_with_a_form_have_an_order_of_their_own():
    csr = random_csr(50, 50, 400)
    in_panels(csr, 2)
    widths = {"layers.0 forward": WIDTH, "layers.1 forward": WIDTH, "layers.1 backward": WIDTH}
    forms = {"panels": {"layers.0 forward": 2, "layers.1 forward": 2}, "tiles": {}, "inflation": {}}
    orders = reading_orders(csr, forms, widths)
    assert orders.keys() == {"layers.0 forward", "layers.1 forward"}
    assert orders["layers.0 forward"] is orders["layers.1 forward"]


def test_panels_that_fit_a_cache_hit_it():
    csr = random_csr(400, 400, 8000)
    cache = (Cache("L1d", 100 * WIDTH * 4, 4, 64),)
    product = {"name": "forward", "csr": csr, "width": WIDTH, "itemsize": 4, "count": 1}
    order = reading_order(in_panels(csr, 4), WIDTH)
    by_edges, by_panels = (simulate([one], 10**9, cache)["hit_rate"] for one in (product, product | {"order": order}))
    assert by_edges < 0.4 and by_panels > 0.9


@pytest.mark.parametrize("scenario", ["train", "infer", "spmm"])
def test_the_hit_rate_of_a_cell_in_tiles_is_not_that_of_its_edges(scenario, tmp_path):
    accesses = {}
    for options in ({"tiles": "false"}, {"forms": "tiles", "density_threshold": LEAST_DENSITY}):
        planned = cell(
            saved_graph(tmp_path / str(len(accesses))),
            scenario={"name": scenario},
            measure={"cache": "simulate", "limits": False},
        )
        opened = Session(planned, lambda _: None)
        backend = resolve(config_class("blocksparse")(**options), [])
        opened.config = replace(opened.config, backend=backend)
        opened.open()
        answer = opened.finish()
        accesses[bool(answer["facts"]["tiles"])] = answer["cache"]["levels"][0]["accesses"]
    assert accesses.keys() == {False, True} and accesses[False] != accesses[True]
