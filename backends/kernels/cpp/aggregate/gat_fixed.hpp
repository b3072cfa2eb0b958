// Backward pass of graph attention over rows that need no gradient, as features: edges stay in the order of rows, so
// that no transpose is built, which takes longer than everything else of a batch's backward pass.
#pragma once
#include <algorithm>
#include <vector>

#include "aggregate/gat.hpp"
#include "aggregate/score_gradients.hpp"

namespace kernels {

constexpr int64_t kSourceParts = 8;           // partial sums of the sources' gradients
constexpr int64_t kSerialScores = 1 << 15;    // scores of edges that are not worth partial sums

template <class T, class I>
struct FixedGradient {
    const T* grad;  // [rows, heads, width] of the output
    T* grad_src;    // [columns, heads]
    T* grad_dst;    // [rows, heads]
    T* grad_edge;   // [nnz, heads]
    T* terms;       // [nnz, 2, heads]
    T* inner;       // [rows, heads]
    int64_t columns;
};

// Computes the terms of edges; one per thread, as it has buffers. H is the number of heads, 0 for any.
template <class T, class I, int H>
class EdgeTerms {
  public:
    EdgeTerms(const GatTask<T, I>& task, const FixedGradient<T, I>& gradient)
        : t(task), g(gradient), heads{task.heads}, mask(task.dropout, heads, kEdgeBlock) {
        for (auto* buffer : {&raw, &peak, &share, &product}) buffer->resize(kEdgeBlock * heads + lanes<T>);
    }

    // Edges [begin, end), at most kEdgeBlock.
    void block(int64_t begin, int64_t end) {
        collect(begin, end);
        const int64_t count = end - begin;
        for (int64_t i = 0; i < count * heads; i += lanes<T>) {
            const vec<T> above = leaky<T>(load(raw.data() + i), t.slope) - load(peak.data() + i);
            const vec<T> weight = exponential_or_zero<T>(above) * load(share.data() + i);
            store(share.data() + i, load(raw.data() + i) > vec<T>{} ? weight : -weight);
        }
        if (mask.drops()) {
            mask.draw(count, [&](int64_t e) { return begin + e; });
            mask.apply(product.data(), count);
        }
        T* to = g.terms + begin * 2 * heads;
        for (int64_t e = 0; e < count; ++e, to += 2 * heads) {
            copy_heads<T, H>(share.data() + e * heads, heads, to);
            copy_heads<T, H>(product.data() + e * heads, heads, to + heads);
        }
    }

  private:
    // The edges' scores and products, and of their rows the largest score and one over the sum of exponentials.
    void collect(int64_t begin, int64_t end) {
        int64_t row = std::upper_bound(t.a.indptr, t.a.indptr + t.a.rows + 1, I(begin)) - t.a.indptr - 1, i = 0;
        for (int64_t e = begin; e < end; ++row)
            for (const int64_t last = std::min<int64_t>(t.a.indptr[row + 1], end); e < last; ++e) {
                const int64_t ahead = t.a.indices[std::min(e + kAhead, t.a.edges() - 1)];
                prefetch_row(t.z + ahead * t.source_stride(), t.source_stride());
                edge(row, e, i), i += heads;
            }
    }

    void edge(int64_t row, int64_t e, int64_t i) {
        const int64_t source = t.a.indices[e];
        const T *z = t.z + source * t.source_stride(), *grad = g.grad + row * heads * t.width;
        for (int64_t h = 0; h < heads; ++h, ++i, grad += t.width) {
            const T score = t.score_src[source * heads + h];
            const T own = t.score_edge == nullptr ? score : score + t.score_edge[e * heads + h];
            raw[i] = own + t.score_dst[row * heads + h];
            peak[i] = t.row_max[row * heads + h];
            share[i] = T(1) / t.row_sum[row * heads + h];
            product[i] = kernels::inner(grad, z + (t.shared ? 0 : h * t.width), t.width);
        }
    }

    const GatTask<T, I>& t;
    const FixedGradient<T, I>& g;
    const Heads<H> heads;
    std::vector<T> raw, peak, share, product;
    EdgeMask<T, H> mask;
};

// Add the gradients of edges [begin, end) to those of their sources, `to` [columns, heads].
template <class T, class I>
void add_to_sources(const GatTask<T, I>& t, const T* grad_edge, int64_t begin, int64_t end, T* to) {
    for (int64_t e = begin; e < end; ++e) {
        T* source = to + int64_t(t.a.indices[e]) * t.heads;
        for (int64_t h = 0; h < t.heads; ++h) source[h] += grad_edge[e * t.heads + h];
    }
}

// grad_src, in the order of the edges: in parts whose bounds do not depend on the threads, where there are many.
template <class T, class I>
void sum_by_source(const GatTask<T, I>& t, const FixedGradient<T, I>& g, int threads) {
    const int64_t nnz = t.a.edges(), size = g.columns * t.heads;
    const int64_t parts = nnz * t.heads < kSerialScores || nnz < g.columns ? 1 : kSourceParts;
    std::vector<T> partial((parts - 1) * size);
    const auto sums = [&](int64_t part) { return part == 0 ? g.grad_src : partial.data() + (part - 1) * size; };
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (parts > 1)
    for (int64_t part = 0; part < parts; ++part) {
        std::fill_n(sums(part), size, T(0));
        add_to_sources(t, g.grad_edge, nnz * part / parts, nnz * (part + 1) / parts, sums(part));
    }
#pragma omp parallel for num_threads(threads) schedule(static) if (parts > 1)
    for (int64_t i = 0; i < (parts > 1 ? size : 0); ++i)
        for (int64_t part = 1; part < parts; ++part) g.grad_src[i] += sums(part)[i];
}

template <class T, class I, int H>
void fixed_gradients(const GatTask<T, I>& t, const FixedGradient<T, I>& g, const RowPlan& rows, int threads) {
    const int64_t blocks = (t.a.edges() + kEdgeBlock - 1) / kEdgeBlock;
#pragma omp parallel num_threads(threads)
    {
        EdgeTerms<T, I, H> mine(t, g);
#pragma omp for schedule(dynamic, 4)
        for (int64_t block = 0; block < blocks; ++block)
            mine.block(block * kEdgeBlock, std::min((block + 1) * kEdgeBlock, t.a.edges()));
    }
    const ScoreTask<T, I> by_row{t.a, true, nullptr, g.terms, g.inner, t.heads, t.slope, g.grad_dst, g.grad_edge};
    sum_score_gradients<T, I, H>(by_row, rows, threads);
    sum_by_source(t, g, threads);
}

template <class T, class I>
void gat_backward_fixed(const GatTask<T, I>& t, const FixedGradient<T, I>& g, const RowPlan& rows, int threads) {
    with_heads(t.heads, [&]<int H>() { fixed_gradients<T, I, H>(t, g, rows, threads); });
}

}  // namespace kernels
