// Backward pass of graph attention: one pass over each source's out-edges, in which a destination's gradient is read
// once for both the score's gradient (an inner product) and the source's own (a weighted sum).
#pragma once
#include <memory>
#include <new>

#include "aggregate/gat.hpp"

namespace kernels {

// `t.a` is the transpose here: its rows are sources, its columns the destinations that they send to.
template <class T, class I>
struct GatGradient {
    CsrView<I> by_row;
    const I* permutation;  // [nnz]: position of each transposed edge in the forward order
    const I* inverse;      // [nnz]: position of each forward edge in the transposed order
    const T* inner;        // [rows, heads]: inner products of the output and its gradient
    const T* grad;         // [rows, heads, width] of the output
    T* grad_z;             // like z
    T* grad_src;           // [columns, heads]
    T* grad_dst;           // [rows, heads]
    T* grad_edge;          // [nnz, heads] or null
};

// A part's share of grad_z, and what it adds to the inner products of its edges and heads.
template <class T, class I, bool Shared>
struct HeadSpread {
    using Function = void (*)(const Stretch<T, I>&, int64_t, const T*, T*, T*, bool);

    // V vectors of N lanes; P of them make a head, 0 if all belong to one.
    template <int N, int V, int P>
    static void run(const Stretch<T, I>& s, int64_t width, const T* own, T* out, T* products, bool fresh) {
        constexpr int heads = P == 0 ? 1 : V / (P == 0 ? 1 : P), distinct = Shared && P > 0 ? P : V;
        LaneSums<T, N, heads> sums(products, s.heads);
        Walk<T, I> edge(s);
        for (int64_t r = 0; r < s.rows.count; ++r, own += s.own_stride, out += s.own_stride) {
            vecn<T, N> acc[distinct] = {}, own_row[distinct];
            for (int v = 0; v < distinct; ++v) {
                own_row[v] = load_pack<N>(own + source_column<Shared, N, V, P>(v, width));
                if (!fresh) acc[v] = load_pack<N>(out + source_column<Shared, N, V, P>(v, width));
            }
            for (int lane = 0; lane < int(V * N - width); ++lane) own_row[V - 1][lane] = T(0);  // counted before
            for (const int64_t end = s.rows.edge(r + 1); edge.e < end; edge.next()) {
                prefetch<T, N, V>(edge.ahead(ahead_of<T, N, V>));
                const T* row = edge.row();
                vecn<T, N> product[heads] = {};
#pragma GCC unroll 16
                for (int v = 0; v < V; ++v) {
                    const auto value = load_pack<N>(row + column<N, V>(v, width));
                    acc[v % distinct] += edge.factor[P == 0 ? 0 : v / P] * value;
                    product[P == 0 ? 0 : v / P] += value * own_row[v % distinct];
                }
                sums.add(product);
            }
            write<T, N, distinct>(acc, out, distinct == V ? width : distinct * N, T(1), s.streams);
        }
        sums.finish();
    }

    template <int N, int V, int P = 0>
    Function pick() const {
        return &run<N, V, P>;
    }
};

struct FreeLines {
    void operator()(void* memory) const { ::operator delete[](memory, std::align_val_t(64)); }
};
template <class T>
using LineArray = std::unique_ptr<T[], FreeLines>;

// An array that begins with a cache line, not initialized: entries of a power of two lie in as few lines as can be.
template <class T>
LineArray<T> line_array(int64_t count) {
    return LineArray<T>(static_cast<T*>(::operator new[](count * sizeof(T), std::align_val_t(64))));
}

// Values that the edges of a destination read, side by side [rows, 4, heads]: its score, the row's maximum, one over its
// sum of exponentials, and the inner product of the output and its gradient. The maximum plus the logarithm of the sum
// would be one value less, but lose the logarithm beside large scores.
template <class T, class I, int H>
LineArray<T> destinations_of(const GatTask<T, I>& t, const GatGradient<T, I>& g, int threads) {
    const Heads<H> heads{t.heads};
    LineArray<T> values = line_array<T>(g.by_row.rows * heads * 4);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < g.by_row.rows; ++row) {
        T* to = values.get() + row * heads * 4;
        for (int64_t h = 0, i = row * heads; h < heads; ++h, ++i) {
            to[h] = t.score_dst[i];
            to[heads + h] = t.row_max[i];
            to[2 * heads + h] = T(1) / t.row_sum[i];
            to[3 * heads + h] = g.inner[i];
        }
    }
    return values;
}

// Backward pass of some sources; one per thread, as it has buffers. H is the number of heads, 0 for any.
template <class T, class I, int H>
class Spreading {
  public:
    Spreading(const GatTask<T, I>& task, const GatGradient<T, I>& gradient, const T* destinations_, T* edge_grad_)
        : t(task), g(gradient), destinations(destinations_), edge_grad(edge_grad_), heads{task.heads},
          turns(heads), parts(task.shared ? parts_of<T, HeadSpread<T, I, true>>(heads, task.width)
                            : parts_of<T, HeadSpread<T, I, false>>(heads, task.width)),
          lane(turns.slots), mask(task.dropout, heads, kEdgeBlock) {
        for (auto* buffer : {&own, &factor, &level, &flow, &offset, &product})
            buffer->resize(kEdgeBlock * heads + lanes<T>);
    }

    // Send the edges of sources, at most kEdgeBlock: their gradients, grad_z into `out`, grad_src into `total`.
    void block(const Rows<I>& sources, T* out, T* total, bool fresh, bool streamed) {
        collect(sources);
        weigh(sources);
        const int64_t stride = t.source_stride(), readable = t.a.edges() - sources.starts[0];
        for (const auto& part : parts) {
            const int64_t column = t.source_column(part);
            const Stretch<T, I> stretch{sources, t.a.indices + sources.starts[0], readable, factor.data() + part.head,
                                        heads, g.grad + part.first, heads * t.width, stride, streamed};
            part.compute(stretch, part.width, t.z + sources.first * stride + column, out + column,
                         product.data() + part.head, fresh && (!t.shared || part.head == 0));
        }
        finish(sources, total, fresh);
    }

    // The same for more edges of one source.
    void segment(int64_t source, int64_t begin, int64_t end, T* out, T* total) {
        each_piece<I>(source, begin, end,
                      [&](const Rows<I>& piece, bool first, bool) { block(piece, out, total, first, false); });
    }

  private:
    // Gather the values of the edges' sources and destinations, edge by edge.
    void collect(const Rows<I>& sources) {
        const I* rows = t.a.indices + sources.starts[0];
        const int64_t count = sources.edges();
        T* const to[] = {factor.data(), level.data(), flow.data(), offset.data()};
        int64_t e = 0;
        for (; H == 1 && e + 4 <= count; e += 4) {
            vecn<T, 4> of[4];
            for (int k = 0; k < 4; ++k) of[k] = load_pack<4>(destinations + int64_t(rows[e + k]) * 4);
            for (int v = 0; v < 4; ++v) store_pack<4>(to[v] + e, vecn<T, 4>{of[0][v], of[1][v], of[2][v], of[3][v]});
        }
        for (; e < count; ++e)
            for (int v = 0; v < 4; ++v)
                copy_heads<T, H>(destinations + (int64_t(rows[e]) * 4 + v) * heads, heads, to[v] + e * heads);
        auto&& src = turns.laid(lane);
        for (int64_t r = 0; r < sources.count; ++r) {
            turns.spread(t.score_src + (sources.first + r) * heads, src.data());
            T* of_row = own.data() + sources.edge(r) * heads;  // beyond the row the next one's follow
            turns.each(of_row, sources.degree(r) * heads, [&](vec<T>, int64_t at, int64_t s) { store(of_row + at, src[s]); });
        }
        for (e = 0; t.score_edge != nullptr && e < count; ++e)
            for (int64_t h = 0; h < heads; ++h)
                own[e * heads + h] += t.score_edge[int64_t(g.permutation[sources.starts[0] + e]) * heads + h];
    }

    // The edges' attention, recomputed: `factor` weighs their gradients, `flow` also holds leaky's slope. An attention of
    // all or nothing does not depend on its score: the rounding of a difference of large products must not pass for it.
    // Scores are rounded as the forward pass rounds them, of which the largest is subtracted.
    void weigh(const Rows<I>& sources) {
        const vec<T> one = broadcast(T(1)), slope = broadcast(t.slope);
        const int64_t count = sources.edges() * heads;
        for (int64_t i = 0; i < count; i += lanes<T>) {
            const vec<T> raw = load(own.data() + i) + load(factor.data() + i);
            const vec<T> above = leaky<T>(raw, t.slope) - load(level.data() + i);
            const vec<T> weight = exponential_or_zero<T>(above) * load(flow.data() + i);
            store(factor.data() + i, weight);
            store(flow.data() + i, weight == one ? vec<T>{} : raw > vec<T>{} ? weight : weight * slope);
            store(product.data() + i, vec<T>{});
        }
        if (!mask.drops()) return;
        mask.draw(sources.edges(), [&](int64_t e) { return int64_t(g.permutation[sources.starts[0] + e]); });
        mask.apply(factor.data(), sources.edges());
    }

    void finish(const Rows<I>& sources, T* total, bool fresh) {
        const int64_t count = sources.edges() * heads;
        if (mask.drops()) mask.apply(product.data(), sources.edges());
        for (int64_t i = 0; i < count; i += lanes<T>) {
            const vec<T> change = load(flow.data() + i), excess = load(product.data() + i) - load(offset.data() + i);
            store(product.data() + i, change == vec<T>{} ? change : change * excess);
        }
        turns.sum_rows(sources, product.data(), lane, total, fresh);
        std::copy_n(product.begin(), count, edge_grad + int64_t(sources.starts[0]) * heads);
    }

    const GatTask<T, I>& t;
    const GatGradient<T, I>& g;
    const T* destinations;
    T* edge_grad;
    const Heads<H> heads;
    const Turns<T, H> turns;
    const std::vector<Part<typename HeadSpread<T, I, false>::Function>> parts;
    LaneBuffer<T> lane;
    std::vector<T> own, factor, level, flow, offset, product;
    EdgeMask<T, H> mask;
};

template <class T, class I, int H>
void spread_hubs(const GatTask<T, I>& t, const GatGradient<T, I>& g, const RowPlan& sources, const T* destinations,
                 T* edge_grad, int threads) {
    const HubSegments<I> segments(t.a.indptr, sources);
    const int64_t count = segments.count(), width = t.source_stride();
    std::vector<T> partial(count * width), sums(count * t.heads);
#pragma omp parallel num_threads(threads)
    {
        Spreading<T, I, H> mine(t, g, destinations, edge_grad);
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < count; ++s) {
            const HubSegment segment = segments[s];
            mine.segment(segment.row, segment.begin, segment.end, partial.data() + s * width,
                         sums.data() + s * t.heads);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t hub = 0; hub < sources.hub_count; ++hub) {
            const int64_t source = segments.row(hub);
            std::copy_n(segments.summed(partial, width, hub), width, g.grad_z + source * width);
            std::copy_n(segments.summed(sums, t.heads, hub), t.heads, g.grad_src + source * t.heads);
        }
    }
}

// to [heads] = sum of values [*, heads] at `at` in a fixed order; several loads are under way at once.
template <class T, class I, int H>
inline void gathered_sum(const T* values, const I* at, int64_t count, int64_t heads, T* to) {
    int64_t e = 0;
    if constexpr (H == 1) {
        vec<T> sums{};
        for (; e + lanes<T> <= count; e += lanes<T>) {
            vec<T> several;
            for (int lane = 0; lane < lanes<T>; ++lane) several[lane] = values[at[e + lane]];
            sums += several;
        }
        to[0] = sum<T>(sums);
    } else {
        std::fill_n(to, heads, T(0));
    }
    if constexpr (H == 0) {
        for (; e < count; ++e)
            for (int64_t h = 0; h < heads; ++h) to[h] += values[int64_t(at[e]) * heads + h];
    } else {
        vecn<T, H> rest = load_pack<H>(to);
        for (; e < count; ++e) rest += load_pack<H>(values + int64_t(at[e]) * H);
        store_pack<H>(to, rest);
    }
}

// The sum of edges [begin, end) of a row, into `to` [heads], and grad_edge: the scores' gradients brought back into the
// forward order.
template <class T, class I, int H>
inline void gather_gradients(const GatGradient<T, I>& g, int64_t begin, int64_t end, int64_t heads, const T* edge_grad,
                             T* to) {
    gathered_sum<T, I, H>(edge_grad, g.inverse + begin, end - begin, heads, to);
    for (int64_t e = begin; g.grad_edge != nullptr && e < end; ++e)
        std::copy_n(edge_grad + int64_t(g.inverse[e]) * heads, heads, g.grad_edge + e * heads);
}

// grad_dst, the sum of each row's edges, and grad_edge.
template <class T, class I, int H>
void sum_edge_gradients(const GatTask<T, I>& t, const GatGradient<T, I>& g, const RowPlan& rows, const T* edge_grad,
                        int threads) {
    const int64_t heads = H == 0 ? t.heads : H;
    const HubSegments<I> segments(g.by_row.indptr, rows);
    const int64_t count = segments.count();
    std::vector<T> partial(count * heads);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(dynamic, 1) nowait
        for (int64_t chunk = 0; chunk < rows.chunks; ++chunk)
            for (int64_t row = rows.bounds[chunk]; row < rows.bounds[chunk + 1]; ++row) {
                const int64_t begin = g.by_row.indptr[row], end = g.by_row.indptr[row + 1];
                if (end - begin <= kHubSegment)
                    gather_gradients<T, I, H>(g, begin, end, heads, edge_grad, g.grad_dst + row * heads);
            }
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < count; ++s) {
            const HubSegment segment = segments[s];
            gather_gradients<T, I, H>(g, segment.begin, segment.end, heads, edge_grad, partial.data() + s * heads);
        }
    }
    for (int64_t hub = 0; hub < rows.hub_count; ++hub)
        std::copy_n(segments.summed(partial, heads, hub), heads, g.grad_dst + segments.row(hub) * heads);
}

template <class T, class I, int H>
void spread_sources(const GatTask<T, I>& t, const GatGradient<T, I>& g, const RowPlan& sources, const RowPlan& rows,
                    int threads) {
    const int64_t width = t.source_stride();
    const bool streamed = !t.shared && streams(g.grad_z, t.a.rows, t.heads, t.width);  // heads add to a shared row
    const auto destinations = destinations_of<T, I, H>(t, g, threads);
    const std::unique_ptr<T[]> edge_grad(new T[t.a.edges() * t.heads]);
#pragma omp parallel num_threads(threads)
    {
        Spreading<T, I, H> mine(t, g, destinations.get(), edge_grad.get());
#pragma omp for schedule(dynamic, 1)
        for (int64_t chunk = 0; chunk < sources.chunks; ++chunk)
            each_block(t.a, sources.bounds[chunk], sources.bounds[chunk + 1], [&](const Rows<I>& some) {
                T *to = g.grad_z + some.first * width, *total = g.grad_src + some.first * t.heads;
                if (some.edges() <= kEdgeBlock) return mine.block(some, to, total, true, streamed);
                mine.segment(some.first, some.starts[0], some.starts[1], to, total);
            });
        if (streamed) stream_fence();
    }
    if (sources.hub_count > 0)
        spread_hubs<T, I, H>(t, g, sources, destinations.get(), edge_grad.get(), threads);
    sum_edge_gradients<T, I, H>(t, g, rows, edge_grad.get(), threads);
}

template <class T, class I>
void gat_backward(const GatTask<T, I>& t, const GatGradient<T, I>& g, const RowPlan& sources, const RowPlan& rows,
                  int threads) {
    switch (t.heads) {
        case 1: return spread_sources<T, I, 1>(t, g, sources, rows, threads);
        case 4: return spread_sources<T, I, 4>(t, g, sources, rows, threads);
        case 8: return spread_sources<T, I, 8>(t, g, sources, rows, threads);
        default: return spread_sources<T, I, 0>(t, g, sources, rows, threads);
    }
}

}  // namespace kernels
