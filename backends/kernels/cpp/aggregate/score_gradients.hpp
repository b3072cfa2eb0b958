// Gradients of attention's scores, from each edge's weight and product, summed by destination and by source.
#pragma once
#include <algorithm>
#include <vector>

#include "aggregate/gat.hpp"

namespace kernels {

constexpr int64_t kTermsAhead = 48;  // edges whose terms are under way

// Edges by destination, whose `inner` are written; or by source, which read them.
//
// The terms are an edge's weight, negative where the leaky ReLU's slope counts, and its product: that of the source's row
// and the destination's gradient, after dropout. Gradients come from differences of these products: the inner product of
// the output and its gradient would be the same number, but rounded otherwise than the products it is subtracted from.
template <class T, class I>
struct ScoreTask {
    CsrView<I> a;
    bool by_destination;
    const I* places;  // [nnz]: where the edges' terms are, null for their own positions
    const T* terms;   // [nnz, 2, heads]
    T* inner;         // [destinations, heads]: sums of weights times products
    int64_t heads;
    T slope;
    T* grad;       // [rows, heads]: of the scores of this side's rows
    T* grad_edge;  // [nnz, heads] or null
};

// One thread's buffers. H is the number of heads, 0 for any.
template <class T, class I, int H>
class ScoreGradients {
  public:
    explicit ScoreGradients(const ScoreTask<T, I>& task)
        : t(task), heads{task.heads}, turns(heads), lane(turns.slots), laid_inner(turns.slots) {
        for (auto* buffer : {&weight, &product, &value}) buffer->resize(kEdgeBlock * heads + lanes<T>);
    }

    // Rows of at most kEdgeBlock edges, all at once.
    void block(const Rows<I>& rows) {
        read(rows);
        if (t.by_destination) add_products(rows, t.inner + rows.first * heads, true);
        add_gradients(rows, t.grad + rows.first * heads, true);
    }

    // A row of more edges.
    void row(int64_t row, int64_t begin, int64_t end) {
        if (t.by_destination) products(row, begin, end, t.inner + row * heads);
        gradients(row, begin, end, t.grad + row * heads);
    }

    // to [heads] = sum of weights times products over edges [begin, end) of a row.
    void products(int64_t row, int64_t begin, int64_t end, T* to) {
        each_piece<I>(row, begin, end, [&](const Rows<I>& piece, bool first, bool) {
            read(piece);
            add_products(piece, to, first);
        });
    }

    // to [heads] = sum of gradients over edges [begin, end) of a row whose `inner` is known.
    void gradients(int64_t row, int64_t begin, int64_t end, T* to) {
        each_piece<I>(row, begin, end, [&](const Rows<I>& piece, bool first, bool) {
            read(piece);
            add_gradients(piece, to, first);
        });
    }

  private:
    void read(const Rows<I>& rows) {
        const int64_t begin = rows.starts[0], count = rows.edges(), last = t.a.edges() - 1;
        T *weights = weight.data(), *products = product.data();
        const auto copy = [&](const T* from, int64_t e) {
            copy_heads<T, H>(from, heads, weights + e * heads);
            copy_heads<T, H>(from + heads, heads, products + e * heads);
        };
        const T* terms = t.terms;
        const I* places = t.places;
        for (int64_t e = 0; places == nullptr && e < count; ++e) copy(terms + (begin + e) * 2 * heads, e);
        for (int64_t e = begin; places != nullptr && e < begin + count; ++e) {
            prefetch_row(terms + int64_t(places[std::min(e + kTermsAhead, last)]) * 2 * heads, 2 * heads);
            copy(terms + int64_t(places[e]) * 2 * heads, e - begin);
        }
    }

    void add_products(const Rows<I>& rows, T* to, bool fresh) {
        const T *weights = weight.data(), *products = product.data();
        turns.sum_rows(rows, lane, to, fresh, [](int64_t) {}, [&](int64_t at, int64_t) {
            const vec<T> share = load(weights + at);
            return (share > vec<T>{} ? share : -share) * load(products + at);
        });
    }

    void add_gradients(const Rows<I>& rows, T* to, bool fresh) {
        const T *weights = weight.data(), *products = product.data();
        T* gradients = value.data();
        const auto gradient = [&, slope = broadcast(-t.slope)](int64_t at, vec<T> inner) {
            const vec<T> share = load(weights + at);
            return (share > vec<T>{} ? share : share * slope) * (load(products + at) - inner);
        };
        if (!t.by_destination) {
            gather_inner(rows);
            return turns.sum_rows(rows, lane, to, fresh, [](int64_t) {},
                                  [&](int64_t at, int64_t) { return gradient(at, load(gradients + at)); });
        }
        auto&& inner = turns.laid(laid_inner);
        turns.sum_rows(
            rows, lane, to, fresh, [&](int64_t r) { turns.spread(t.inner + (rows.first + r) * heads, inner.data()); },
            [&](int64_t at, int64_t slot) {
                const vec<T> part = gradient(at, inner[slot]);
                if (t.grad_edge != nullptr) store(gradients + at, part);  // beyond the row the next one's follow
                return part;
            });
        if (t.grad_edge != nullptr)
            std::copy_n(gradients, rows.edges() * heads, t.grad_edge + int64_t(rows.starts[0]) * heads);
    }

    // Leave in `value` what the edges' destinations subtract.
    void gather_inner(const Rows<I>& rows) {
        const I* destinations = t.a.indices + rows.starts[0];
        const T* inner = t.inner;
        T* to = value.data();
        for (int64_t e = 0; e < rows.edges(); ++e)
            copy_heads<T, H>(inner + int64_t(destinations[e]) * heads, heads, to + e * heads);
    }

    const ScoreTask<T, I>& t;
    const Heads<H> heads;
    const Turns<T, H> turns;
    LaneBuffer<T> lane, laid_inner;
    std::vector<T> weight, product, value;
};

// to [rows, heads] of hubs = sums of add(mine, segment, sum [heads]), joined in their order.
template <class T, class I, int H, class Add>
void sum_score_hubs(const ScoreTask<T, I>& t, const HubSegments<I>& segments, const RowPlan& plan, T* to, int threads,
                    Add add) {
    std::vector<T> partial(segments.count() * t.heads);
#pragma omp parallel num_threads(threads)
    {
        ScoreGradients<T, I, H> mine(t);
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < segments.count(); ++s) add(mine, segments[s], partial.data() + s * t.heads);
    }
    for (int64_t hub = 0; hub < plan.hub_count; ++hub)
        std::copy_n(segments.summed(partial, t.heads, hub), t.heads, to + segments.row(hub) * t.heads);
}

// The gradients of one side's scores; by destination, `inner` and grad_edge too.
template <class T, class I, int H>
void sum_score_gradients(const ScoreTask<T, I>& t, const RowPlan& plan, int threads) {
#pragma omp parallel num_threads(threads)
    {
        ScoreGradients<T, I, H> mine(t);
#pragma omp for schedule(dynamic, 1)
        for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
            each_block(t.a, plan.bounds[chunk], plan.bounds[chunk + 1], [&](const Rows<I>& rows) {
                if (rows.edges() <= kEdgeBlock) return mine.block(rows);
                mine.row(rows.first, rows.starts[0], rows.starts[1]);
            });
    }
    if (plan.hub_count == 0) return;
    const HubSegments<I> segments(t.a.indptr, plan);
    if (t.by_destination)
        sum_score_hubs<T, I, H>(t, segments, plan, t.inner, threads, [](auto& mine, const HubSegment& s, T* to) {
            mine.products(s.row, s.begin, s.end, to);
        });
    sum_score_hubs<T, I, H>(t, segments, plan, t.grad, threads, [](auto& mine, const HubSegment& s, T* to) {
        mine.gradients(s.row, s.begin, s.end, to);
    });
}

}  // namespace kernels
