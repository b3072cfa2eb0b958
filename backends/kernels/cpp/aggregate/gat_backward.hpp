// Backward pass of graph attention: one pass over each source's out-edges, in which a destination's gradient is read
// once for both the source's own gradient (a weighted sum) and the edges' products, from which the scores' follow.
#pragma once
#include <memory>
#include <new>

#include "aggregate/gat.hpp"
#include "aggregate/score_gradients.hpp"

namespace kernels {

// `t.a` is the transpose here: its rows are sources, its columns the destinations that they send to.
template <class T, class I>
struct GatGradient {
    CsrView<I> by_row;
    const I* permutation;  // [nnz]: position of each transposed edge in the forward order
    const I* inverse;      // [nnz]: position of each forward edge in the transposed order
    const T* grad;         // [rows, heads, width] of the output
    T* grad_z;             // like z
    T* grad_src;           // [columns, heads]
    T* grad_dst;           // [rows, heads]
    T* grad_edge;          // [nnz, heads] or null
    T* terms;              // [nnz, 2, heads] of the edges in the order of out-edges
    T* inner;              // [rows, heads]: inner products of the output and its gradient
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

// An array that begins with a cache line, not initialized.
template <class T>
LineArray<T> line_array(int64_t count) {
    return LineArray<T>(static_cast<T*>(::operator new[](count * sizeof(T), std::align_val_t(64))));
}

// Values that the edges of a destination read, side by side: its score, the row's maximum, and one over its sum of
// exponentials. The maximum plus the logarithm of the sum would be one value less, but lose the logarithm beside large
// scores. A fourth value pads them: entries of a power of two lie in as few cache lines as can be, and that of a single
// head is read as one pack.
template <class T, int H>
struct Destinations {
    static constexpr int64_t entry = 4;
    Heads<H> heads;
    LineArray<T> values;  // [rows, entry, heads]

    template <class I>
    Destinations(const GatTask<T, I>& t, int64_t rows, int threads)
        : heads{t.heads}, values(line_array<T>(rows * entry * heads)) {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t row = 0; row < rows; ++row) {
            T* to = values.get() + row * entry * heads;
            for (int64_t h = 0, i = row * heads; h < heads; ++h, ++i) {
                to[h] = t.score_dst[i];
                to[heads + h] = t.row_max[i];
                to[2 * heads + h] = T(1) / t.row_sum[i];
                to[3 * heads + h] = T(0);
            }
        }
    }

    const T* of(int64_t row) const { return values.get() + row * entry * heads; }
};

// Backward pass of some sources; one per thread, as it has buffers. H is the number of heads, 0 for any.
template <class T, class I, int H>
class Spreading {
  public:
    Spreading(const GatTask<T, I>& task, const GatGradient<T, I>& gradient, const Destinations<T, H>& destinations_)
        : t(task), g(gradient), destinations(destinations_), heads{task.heads},
          turns(heads), parts(task.shared ? parts_of<T, HeadSpread<T, I, true>>(heads, task.width)
                            : parts_of<T, HeadSpread<T, I, false>>(heads, task.width)),
          lane(turns.slots), mask(task.dropout, heads, kEdgeBlock) {
        for (auto* buffer : {&own, &factor, &level, &weight, &product})
            buffer->resize(kEdgeBlock * heads + lanes<T>);
    }

    // Send the edges of sources, at most kEdgeBlock: grad_z into `out`, and the edges' terms.
    void block(const Rows<I>& sources, T* out, bool fresh, bool streamed) {
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
        finish(sources);
    }

    // The same for more edges of one source.
    void segment(int64_t source, int64_t begin, int64_t end, T* out) {
        each_piece<I>(source, begin, end,
                      [&](const Rows<I>& piece, bool first, bool) { block(piece, out, first, false); });
    }

  private:
    // Gather the values of the edges' sources and destinations, edge by edge.
    void collect(const Rows<I>& sources) {
        const I* rows = t.a.indices + sources.starts[0];
        const int64_t count = sources.edges();
        T* const to[] = {factor.data(), level.data(), weight.data()};
        int64_t e = 0;
        for (; H == 1 && e + 4 <= count; e += 4) {
            vecn<T, 4> of[4];
            for (int k = 0; k < 4; ++k) of[k] = load_pack<4>(destinations.of(rows[e + k]));
            for (int v = 0; v < 3; ++v) store_pack<4>(to[v] + e, vecn<T, 4>{of[0][v], of[1][v], of[2][v], of[3][v]});
        }
        for (; e < count; ++e)
            for (int v = 0; v < 3; ++v) copy_heads<T, H>(destinations.of(rows[e]) + v * heads, heads, to[v] + e * heads);
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

    // The edges' attention, recomputed: `factor` weighs the destinations' gradients, `weight` is it before dropout, its
    // sign that of the score. Scores are rounded as the forward pass rounds them, of which the largest is subtracted.
    void weigh(const Rows<I>& sources) {
        const int64_t count = sources.edges() * heads;
        for (int64_t i = 0; i < count; i += lanes<T>) {
            const vec<T> raw = load(own.data() + i) + load(factor.data() + i);
            const vec<T> above = leaky<T>(raw, t.slope) - load(level.data() + i);
            const vec<T> share = exponential_or_zero<T>(above) * load(weight.data() + i);
            store(factor.data() + i, share);
            store(weight.data() + i, raw > vec<T>{} ? share : -share);
            store(product.data() + i, vec<T>{});
        }
        if (!mask.drops()) return;
        mask.draw(sources.edges(), [&](int64_t e) { return int64_t(g.permutation[sources.starts[0] + e]); });
        mask.apply(factor.data(), sources.edges());
    }

    void finish(const Rows<I>& sources) {
        const int64_t count = sources.edges();
        if (mask.drops()) mask.apply(product.data(), count);
        T* to = g.terms + int64_t(sources.starts[0]) * 2 * heads;
        for (int64_t e = 0; e < count; ++e, to += 2 * heads) {
            copy_heads<T, H>(weight.data() + e * heads, heads, to);
            copy_heads<T, H>(product.data() + e * heads, heads, to + heads);
        }
    }

    const GatTask<T, I>& t;
    const GatGradient<T, I>& g;
    const Destinations<T, H>& destinations;
    const Heads<H> heads;
    const Turns<T, H> turns;
    const std::vector<Part<typename HeadSpread<T, I, false>::Function>> parts;
    LaneBuffer<T> lane;
    std::vector<T> own, factor, level, weight, product;
    EdgeMask<T, H> mask;
};

template <class T, class I, int H>
void spread_hubs(const GatTask<T, I>& t, const GatGradient<T, I>& g, const RowPlan& sources,
                 const Destinations<T, H>& destinations, int threads) {
    const HubSegments<I> segments(t.a.indptr, sources);
    const int64_t count = segments.count(), width = t.source_stride();
    std::vector<T> partial(count * width);
#pragma omp parallel num_threads(threads)
    {
        Spreading<T, I, H> mine(t, g, destinations);
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < count; ++s) {
            const HubSegment segment = segments[s];
            mine.segment(segment.row, segment.begin, segment.end, partial.data() + s * width);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t hub = 0; hub < sources.hub_count; ++hub)
            std::copy_n(segments.summed(partial, width, hub), width, g.grad_z + segments.row(hub) * width);
    }
}

// grad_z, and the edges' terms.
template <class T, class I, int H>
void spread_sources(const GatTask<T, I>& t, const GatGradient<T, I>& g, const RowPlan& sources, int threads) {
    const int64_t width = t.source_stride();
    const bool streamed = !t.shared && streams(g.grad_z, t.a.rows, t.heads, t.width);  // heads add to a shared row
    const Destinations<T, H> destinations(t, g.by_row.rows, threads);
#pragma omp parallel num_threads(threads)
    {
        Spreading<T, I, H> mine(t, g, destinations);
#pragma omp for schedule(dynamic, 1)
        for (int64_t chunk = 0; chunk < sources.chunks; ++chunk)
            each_block(t.a, sources.bounds[chunk], sources.bounds[chunk + 1], [&](const Rows<I>& some) {
                T* to = g.grad_z + some.first * width;
                if (some.edges() <= kEdgeBlock) return mine.block(some, to, true, streamed);
                mine.segment(some.first, some.starts[0], some.starts[1], to);
            });
        if (streamed) stream_fence();
    }
    if (sources.hub_count > 0) spread_hubs<T, I, H>(t, g, sources, destinations, threads);
}

template <class T, class I, int H>
void attention_gradients(const GatTask<T, I>& t, const GatGradient<T, I>& g, const RowPlan& sources,
                         const RowPlan& rows, int threads) {
    spread_sources<T, I, H>(t, g, sources, threads);
    const ScoreTask<T, I> by_row{g.by_row, true, g.inverse, g.terms, g.inner, t.heads, t.slope, g.grad_dst, g.grad_edge};
    const ScoreTask<T, I> by_source{t.a, false, nullptr, g.terms, g.inner, t.heads, t.slope, g.grad_src, nullptr};
    sum_score_gradients<T, I, H>(by_row, rows, threads);
    sum_score_gradients<T, I, H>(by_source, sources, threads);
}

template <class T, class I>
void gat_backward(const GatTask<T, I>& t, const GatGradient<T, I>& g, const RowPlan& sources, const RowPlan& rows,
                  int threads) {
    with_heads(t.heads, [&]<int H>() { attention_gradients<T, I, H>(t, g, sources, rows, threads); });
}

}  // namespace kernels
