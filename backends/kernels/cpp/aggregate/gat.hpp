// Graph attention over in-edges, fused: scores, softmax and weighted sum of a row while its edges are in cache.
//
// Only each row's largest score and its sum of exponentials are kept; the backward pass recomputes the rest.
#pragma once
#include "aggregate/edge_mask.hpp"
#include "aggregate/heads.hpp"
#include "common/hub_segments.hpp"

namespace kernels {

constexpr int64_t kEdgeBlock = 512;  // edges of a block, whose scores stay in cache
constexpr int64_t kBlockRows = 256;  // rows of a block at most

template <class T, class I>
struct GatTask {
    CsrView<I> a;
    const T* z;           // [columns, heads, width], or [columns, 1, width] shared by all heads
    const T* score_src;   // [columns, heads]
    const T* score_dst;   // [rows, heads]
    const T* score_edge;  // [nnz, heads] or null
    T* row_max;           // [rows, heads]
    T* row_sum;           // [rows, heads]
    int64_t heads, width;
    bool shared;  // whether all heads read the same row of a source
    T slope;
    Dropout<T> dropout;  // of edges and heads

    int64_t source_stride() const { return shared ? width : heads * width; }

    // Where the columns of a part begin in a source's row.
    template <class Part>
    int64_t source_column(const Part& part) const {
        return shared ? part.first - part.head * width : part.first;
    }
};

// The largest of each head's scores: leaky is monotone, so it is that of the largest raw score.
template <class T, int H>
inline void peaks_of(const T* top, const T* dst, int64_t heads, T slope, T* to) {
    if constexpr (H > 0) {
        const vecn<T, H> raw = load_pack<H>(top) + load_pack<H>(dst);
        store_pack<H>(to, raw > vecn<T, H>{} ? raw : raw * slope);
    } else {
        for (int64_t h = 0; h < heads; ++h) to[h] = leaky<T>(top[h] + dst[h], slope);
    }
}

// The rows from `row` on that make a block: as many as fit, one at least.
template <class I>
Rows<I> block_of_rows(const CsrView<I>& a, int64_t row, int64_t end) {
    const I *from = a.indptr + row, *last = a.indptr + std::min(row + kBlockRows, end);
    const int64_t fitting = std::upper_bound(from + 1, last + 1, int64_t(from[0]) + kEdgeBlock) - from - 1;
    return {from, row, std::max<int64_t>(fitting, 1)};
}

// Call work(rows) for rows [begin, end) in blocks, without hubs.
template <class I, class Work>
void each_block(const CsrView<I>& a, int64_t begin, int64_t end, Work work) {
    while (begin < end) {
        const Rows<I> rows = block_of_rows(a, begin, end);
        if (rows.edges() <= kHubSegment) work(rows);
        begin += rows.count;
    }
}

// Call work(piece, whether it is the first, whether the last) for edges [begin, end) of a row.
template <class I, class Work>
void each_piece(int64_t row, int64_t begin, int64_t end, Work work) {
    for (int64_t at = begin; at < end; at += kEdgeBlock) {
        const I starts[2] = {I(at), I(std::min(at + kEdgeBlock, end))};
        work(Rows<I>{starts, row, 1}, at == begin, int64_t(starts[1]) == end);
    }
}

// One thread's attention: its buffers and its rows. H is the number of heads, 0 for any.
template <class T, class I, int H>
class Attention {
  public:
    explicit Attention(const GatTask<T, I>& task)
        : t(task), heads{task.heads}, turns(heads), parts(task.shared ? parts_of<T, HeadSum<T, I, true>>(heads, task.width)
                            : parts_of<T, HeadSum<T, I, false>>(heads, task.width)),
          lane(turns.slots), laid_dst(turns.slots), laid_peak(turns.slots), peak(heads), mask(task.dropout, heads, kEdgeBlock) {
        for (auto* buffer : {&raw, &factor}) buffer->resize(kEdgeBlock * heads + lanes<T>);
        for (auto* buffer : {&top, &total, &scale}) buffer->resize(kBlockRows * heads + lanes<T>);
    }

    // Rows of few edges, all at once.
    void block(const Rows<I>& rows, T* out, bool streamed) {
        gather(rows);
        raise(rows, true);
        weigh(rows, true);
        invert(rows.count);
        sum(rows, out, true, streamed);
        keep(rows);
    }

    // A row of more edges than a block has.
    void row(const Rows<I>& row, T* out) {
        find_top(row.first, row.starts[0], row.starts[1]);
        segment(row.first, row.starts[0], row.starts[1], out, true);
        keep(row);
    }

    // Leave each head's largest raw score of edges [begin, end) in `top`.
    void find_top(int64_t row, int64_t begin, int64_t end) {
        each_piece<I>(row, begin, end, [&](const Rows<I>& piece, bool first, bool) {
            gather(piece);
            raise(piece, first);
        });
    }

    // Weighted sum of edges [begin, end) given `top`, which leaves `total`; divided by it if `whole`.
    void segment(int64_t row, int64_t begin, int64_t end, T* out, bool whole) {
        std::fill_n(scale.begin(), heads, T(1));
        each_piece<I>(row, begin, end, [&](const Rows<I>& piece, bool first, bool last) {
            gather(piece);
            weigh(piece, first);
            if (whole && last) invert(1);
            sum(piece, out, first, false);
        });
    }

    void keep(const Rows<I>& rows) {
        const int64_t first = rows.first * heads;
        for (int64_t r = 0; r < rows.count; ++r) {
            const int64_t at = r * heads;
            if (rows.degree(r) == 0)
                std::fill_n(t.row_max + first + at, heads, T(0));
            else
                peaks_of<T, H>(top.data() + at, t.score_dst + first + at, heads, t.slope, t.row_max + first + at);
        }
        std::copy_n(total.data(), rows.count * heads, t.row_sum + first);
    }

    std::vector<T>& totals() { return total; }
    std::vector<T>& tops() { return top; }

  private:
    void gather(const Rows<I>& rows) {
        const I* sources = t.a.indices + rows.starts[0];
        const int64_t count = rows.edges();
        T* to = raw.data();
        for (int64_t e = 0; e < count; ++e)
            copy_heads<T, H>(t.score_src + int64_t(sources[e]) * heads, heads, to + e * heads);
        const T* more = t.score_edge == nullptr ? nullptr : t.score_edge + int64_t(rows.starts[0]) * heads;
        for (int64_t i = 0; more != nullptr && i < count * heads; ++i) to[i] += more[i];
    }

    // Let `top` [rows, heads] hold the largest raw scores.
    void raise(const Rows<I>& rows, bool fresh) {
        auto&& largest = turns.laid(lane);
        for (int64_t r = 0; r < rows.count; ++r) {
            std::fill_n(largest.begin(), turns.slots, broadcast(T(-INFINITY)));
            turns.each(raw.data() + rows.edge(r) * heads, rows.degree(r) * heads, T(-INFINITY),
                       [&](vec<T> value, int64_t, int64_t s) { largest[s] = maximum<T>(largest[s], value); });
            T* to = top.data() + r * heads;
            if (fresh) std::fill_n(to, heads, T(-INFINITY));
            turns.fold(largest.data(), to, [](auto a, auto b) { return a > b ? a : b; });
        }
    }

    // Turn raw scores into exponentials, dropped edges into zeros after their share went into the total.
    void weigh(const Rows<I>& rows, bool fresh) {
        subtract_peaks(rows);
        T* values = factor.data();
        const int64_t count = rows.edges() * heads;
        for (int64_t i = 0; i < count; i += lanes<T>) store(values + i, exponential_or_zero<T>(load(values + i)));
        turns.sum_rows(rows, values, lane, total.data(), fresh);
        if (!mask.drops()) return;
        mask.draw(rows.edges(), [&](int64_t e) { return int64_t(rows.starts[0]) + e; });
        mask.apply(values, rows.edges());
    }

    void subtract_peaks(const Rows<I>& rows) {
        auto&& dst = turns.laid(laid_dst);
        auto&& peaks = turns.laid(laid_peak);
        for (int64_t r = 0; r < rows.count; ++r) {
            const T* own = t.score_dst + (rows.first + r) * heads;
            peaks_of<T, H>(top.data() + r * heads, own, heads, t.slope, peak.data());
            turns.spread(own, dst.data());
            turns.spread(peak.data(), peaks.data());
            const int64_t at = rows.edge(r) * heads;
            // Lanes beyond the row belong to the next one, which overwrites them.
            turns.each(raw.data() + at, rows.degree(r) * heads, [&](vec<T> value, int64_t i, int64_t s) {
                store(factor.data() + at + i, leaky<T>(value + dst[s], t.slope) - peaks[s]);
            });
        }
    }

    void invert(int64_t rows) {
        for (int64_t i = 0; i < rows * heads; i += lanes<T>) {
            const vec<T> sums = load(total.data() + i);
            store(scale.data() + i, sums > vec<T>{} ? T(1) / sums : sums);
        }
    }

    void sum(const Rows<I>& rows, T* out, bool fresh, bool streamed) {
        const int64_t readable = t.a.edges() - rows.starts[0];
        for (const auto& part : parts) {
            const Stretch<T, I> stretch{rows, t.a.indices + rows.starts[0], readable, factor.data() + part.head, heads,
                                        t.z + t.source_column(part), t.source_stride(), heads * t.width, streamed};
            part.compute(stretch, part.width, out + part.first, fresh, scale.data() + part.head);
        }
    }

    const GatTask<T, I>& t;
    const Heads<H> heads;
    const Turns<T, H> turns;
    const std::vector<Part<typename HeadSum<T, I, false>::Function>> parts;
    LaneBuffer<T> lane, laid_dst, laid_peak;
    std::vector<T> peak, raw, factor, top, total, scale;
    EdgeMask<T, H> mask;
};

// Rows of very many edges: their segments are distributed over the threads and added in their order.
template <class T, class I, int H>
void attend_hubs(const GatTask<T, I>& t, const RowPlan& plan, T* out, int threads) {
    const HubSegments<I> segments(t.a.indptr, plan);
    const int64_t count = segments.count(), width = t.heads * t.width;
    std::vector<T> top(count * t.heads), total(count * t.heads), partial(count * width);
#pragma omp parallel num_threads(threads)
    {
        Attention<T, I, H> mine(t);
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < count; ++s) {
            const HubSegment segment = segments[s];
            mine.find_top(segment.row, segment.begin, segment.end);
            std::copy_n(mine.tops().begin(), t.heads, top.begin() + s * t.heads);
        }
#pragma omp for schedule(static)
        for (int64_t hub = 0; hub < plan.hub_count; ++hub)
            segments.joined(top, t.heads, hub, [](T a, T b) { return a > b ? a : b; });
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < count; ++s) {
            const HubSegment segment = segments[s];
            std::copy_n(top.begin() + segments.first_of(segment.hub) * t.heads, t.heads, mine.tops().begin());
            mine.segment(segment.row, segment.begin, segment.end, partial.data() + s * width, false);
            std::copy_n(mine.totals().begin(), t.heads, total.begin() + s * t.heads);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t hub = 0; hub < plan.hub_count; ++hub) {
            const int64_t row = segments.row(hub);
            const T *sums = segments.summed(partial, width, hub), *totals = segments.summed(total, t.heads, hub);
            for (int64_t c = 0; c < width; ++c) out[row * width + c] = sums[c] / totals[c / t.width];
            std::copy_n(top.begin() + segments.first_of(hub) * t.heads, t.heads, mine.tops().begin());
            std::copy_n(totals, t.heads, mine.totals().begin());
            mine.keep({t.a.indptr + row, row, 1});
        }
    }
}

template <class T, class I, int H>
void attend_rows(const GatTask<T, I>& t, const RowPlan& plan, T* out, int threads) {
    const bool streamed = streams(out, t.a.rows, t.heads, t.width);
#pragma omp parallel num_threads(threads)
    {
        Attention<T, I, H> mine(t);
#pragma omp for schedule(dynamic, 1)
        for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
            each_block(t.a, plan.bounds[chunk], plan.bounds[chunk + 1], [&](const Rows<I>& rows) {
                T* to = out + rows.first * t.heads * t.width;
                rows.edges() <= kEdgeBlock ? mine.block(rows, to, streamed) : mine.row(rows, to);
            });
        if (streamed) stream_fence();
    }
    if (plan.hub_count > 0) attend_hubs<T, I, H>(t, plan, out, threads);
}

template <class T, class I>
void gat_forward(const GatTask<T, I>& t, const RowPlan& plan, T* out, int threads) {
    with_heads(t.heads, [&]<int H>() { attend_rows<T, I, H>(t, plan, out, threads); });
}

}  // namespace kernels
