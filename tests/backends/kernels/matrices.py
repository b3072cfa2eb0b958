"""Random matrices of awkward shapes, tensors in awkward layouts, and each kernel's definition in numpy."""

import numpy as np
import torch
from hypothesis import strategies as st

from backends.kernels import dispatch, plain
from datasets.csr import Csr, csr_from_edges

WIDTHS = st.one_of(st.integers(1, 70), st.sampled_from([121, 127, 128, 256, 602, 1030]))


@st.composite
def matrices(draw, most=12):
    """Empty ones, one column, rows without edges, parallel edges, unsorted columns, either index type."""
    rows, columns = draw(st.integers(0, most)), draw(st.one_of(st.just(1), st.integers(0, most)))
    edges = draw(st.integers(0, 60)) if rows * columns else 0
    return random_csr(
        draw(st.integers(0, 999)),
        rows,
        columns,
        edges,
        draw(st.sampled_from([np.int32, np.int64])),
        draw(st.booleans()),
    )


def random_csr(seed, rows, columns, edges, dtype=np.int32, shuffled=False):
    draw = np.random.default_rng(seed)
    ends = draw.integers(0, max(columns, 1), edges), draw.integers(0, max(rows - rows // 3, 1), edges)
    csr = csr_from_edges(*ends, (rows, columns))
    indices = csr.indices.astype(dtype)
    if shuffled:
        indices = indices[np.lexsort((draw.random(edges), csr.destinations))]
    return Csr(csr.indptr.astype(dtype), indices, csr.shape)


def hub_csr(edges, seed=0):
    """Row 0 has ``edges``, 500 rows share 20,000 more."""
    draw = np.random.default_rng(seed)
    ends = np.concatenate([np.zeros(edges, dtype=np.int64), draw.integers(0, 500, 20_000)])
    return csr_from_edges(draw.integers(0, 500, len(ends)), ends, (500, 500))


def hubs_csr(seed=0):
    """Rows 0 and 3 are hubs, of three and two segments, column 5 another; 500 rows share 20,000 more edges."""
    draw = np.random.default_rng(seed)
    ends = [np.repeat([0, 3], [66_536, 32_769]), draw.integers(0, 500, 40_000), draw.integers(0, 500, 20_000)]
    sources = [draw.integers(0, 500, 99_305), np.full(40_000, 5), draw.integers(0, 500, 20_000)]
    return csr_from_edges(np.concatenate(sources), np.concatenate(ends), (500, 500))


def tensor(seed, *shape, layout="contiguous", dtype=torch.float64):
    """Normal numbers; ``layout`` ``turned`` stores the last axis first, ``strided`` leaves gaps."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    if layout == "turned":
        return values.movedim(-1, 0).contiguous().movedim(0, -1)
    return values.repeat_interleave(2, -1)[..., ::2] if layout == "strided" else values


LAYOUTS = st.sampled_from(["contiguous", "turned", "strided"])


def by_row(csr, values):
    """Each row's edges of ``values`` [nnz, ...], in order."""
    return [values[csr.indptr[row] : csr.indptr[row + 1]] for row in range(csr.shape[0])]


def numpy_spmm(csr, x, weight, reduce):
    messages = x[csr.indices] if weight is None else weight[:, None] * x[csr.indices]
    combine = {"sum": np.sum, "mean": np.mean, "max": np.max}[reduce]
    out = np.zeros((csr.shape[0], x.shape[1]))
    for row, part in enumerate(by_row(csr, messages)):
        out[row] = combine(part, axis=0) if len(part) else 0
    return out


def numpy_softmax(csr, logits):
    parts = [np.exp(part - part.max(0)) for part in by_row(csr, logits) if len(part)]
    return np.concatenate([part / part.sum(0) for part in parts]) if parts else logits


def numpy_sddmm(csr, a, b):
    return np.einsum("ehd,ehd->eh", a[csr.destinations], b[csr.indices])


def numpy_gat(csr, z, score_src, score_dst, slope=0.2):
    raw = score_src[csr.indices] + score_dst[csr.destinations]
    alpha = numpy_softmax(csr, np.where(raw > 0, raw, slope * raw))
    parts = by_row(csr, alpha[:, :, None] * z[csr.indices])
    return np.stack([part.sum(0) for part in parts]) if parts else np.zeros((0, *z.shape[1:]))


def use_plain(monkeypatch):
    """Compute in plain torch, as where the extension is not built."""
    monkeypatch.setitem(dispatch.IMPLEMENTATIONS, "cpu", plain)


def close(actual, expected):
    """Equal to float64's rounding."""
    torch.testing.assert_close(actual.detach(), torch.from_numpy(expected), rtol=1e-9, atol=1e-9)
