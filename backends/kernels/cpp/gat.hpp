// Graph attention over in-edges, fused: scores, softmax and weighted sum of a row while its edges are in cache.
//
// Only each row's largest score and its sum of exponentials are kept; the backward pass recomputes the rest.
#pragma once
#include "heads.hpp"

namespace kernels {

constexpr int64_t kEdgeBlock = 512;  // edges whose scores are held at once

// Attention dropout whose mask is a hash of (seed, edge, head): the same in every pass, for any number of threads.
struct Dropout {
    uint64_t seed;
    uint64_t bound;  // words below it drop
    double scale;

    Dropout(double rate, uint64_t seed_) : seed(seed_), bound(0), scale(1.0) {
        if (rate > 0) {
            bound = uint64_t(rate * 18446744073709551616.0);
            scale = 1.0 / (1.0 - rate);
        }
    }

    template <class T>
    inline T factor(uint64_t edge, uint64_t head) const {
        uint64_t word = seed + (edge * 64 + head) * 0x9E3779B97F4A7C15ull;
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
        word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
        word ^= word >> 31;
        return word < bound ? T(0) : T(scale);
    }
};

template <class T, class I>
struct GatTask {
    CsrView<I> a;
    const T* z;           // [columns, heads, width]
    const T* score_src;   // [columns, heads]
    const T* score_dst;   // [rows, heads]
    const T* score_edge;  // [nnz, heads] or null
    T* row_max;           // [rows, heads]
    T* row_sum;           // [rows, heads]
    int64_t heads, width;
    T slope;
    Dropout dropout;

    inline T leaky(T score) const { return score > 0 ? score : slope * score; }
};

// One thread's attention: its buffers and its rows. H is the number of heads, 0 for any.
template <class T, class I, int H>
class Attention {
  public:
    explicit Attention(const GatTask<T, I>& task)
        : t(task), heads(H == 0 ? task.heads : H), turns(heads), parts(parts_of<T, HeadSum<T, I>>(heads, task.width)),
          factor(kEdgeBlock * heads + lanes<T>), top(heads), total(heads), scale(heads), laid_dst(turns.slots), laid_top(turns.slots),
          lane(turns.slots) {}

    void row(int64_t row, T* out) {
        const int64_t begin = t.a.indptr[row], end = t.a.indptr[row + 1];
        if (begin == end) std::fill(out, out + heads * t.width, T(0));
        find_top(row, begin, end);
        segment(row, begin, end, out, true);
        keep(row, top.data(), total.data());
    }

    // Leave each head's largest score of edges [begin, end) in `top`: leaky is monotone, so it follows the raw score.
    void find_top(int64_t row, int64_t begin, int64_t end) {
        std::fill(top.begin(), top.end(), T(-INFINITY));
        for (int64_t block = begin; block < end; block += kEdgeBlock) {
            const int64_t count = std::min(kEdgeBlock, end - block);
            raw_scores(block, count);
            raise_top(count);
        }
        for (int64_t h = 0; h < heads; ++h)
            top[h] = begin == end ? T(0) : t.leaky(top[h] + t.score_dst[row * heads + h]);
    }

    // Weighted sum of edges [begin, end) given `top`, which leaves `total`; divided by it if `whole`.
    void segment(int64_t row, int64_t begin, int64_t end, T* out, bool whole) {
        std::fill(total.begin(), total.end(), T(0));
        for (int64_t block = begin; block < end; block += kEdgeBlock) {
            const int64_t count = std::min(kEdgeBlock, end - block);
            if (end - begin > kEdgeBlock || !whole) raw_scores(block, count);
            weigh(row, block, count);
            const bool divides = whole && block + count == end;
            for (int64_t h = 0; h < heads; ++h) scale[h] = divides ? T(1) / total[h] : T(1);
            for (const auto& part : parts) {
                const Stretch<T, I> stretch{t.a.indices + block, count, t.a.edges() - block, factor.data() + part.head,
                                            heads, t.z + part.first, heads * t.width};
                part.compute(stretch, part.width, out + part.first, block == begin, scale.data() + part.head);
            }
        }
    }

    void keep(int64_t row, const T* largest, const T* totals) {
        std::copy(largest, largest + heads, t.row_max + row * heads);
        std::copy(totals, totals + heads, t.row_sum + row * heads);
    }

    std::vector<T>& totals() { return total; }
    std::vector<T>& tops() { return top; }

  private:
    void raw_scores(int64_t block, int64_t count) {
        const I* sources = t.a.indices + block;
        const T* scores = t.score_src;
        T* values = factor.data();
        for (int64_t e = 0; e < count; ++e)
            for (int64_t h = 0; h < heads; ++h) values[e * heads + h] = scores[int64_t(sources[e]) * heads + h];
        if (t.score_edge != nullptr)
            for (int64_t i = 0; i < count * heads; ++i) values[i] += t.score_edge[block * heads + i];
        pad(values, count * heads, T(-INFINITY));
    }

    void raise_top(int64_t count) {
        const T* values = factor.data();
        vec<T>* largest = lane.data();
        turns.spread(top.data(), largest);
        turns.each(count * heads,
                   [&](int64_t at, int64_t s) { largest[s] = maximum<T>(largest[s], load(values + at)); });
        turns.fold(largest, top.data(), [](auto a, auto b) { return a > b ? a : b; });
    }

    // Turn raw scores into exponentials, dropped edges into zeros after their share went into the total.
    void weigh(int64_t row, int64_t block, int64_t count) {
        T* values = factor.data();
        vec<T>*dst = laid_dst.data(), *largest = laid_top.data(), *sums = lane.data();
        turns.spread(t.score_dst + row * heads, dst);
        turns.spread(top.data(), largest);
        std::fill(sums, sums + turns.slots, vec<T>{});
        turns.each(count * heads, [&](int64_t at, int64_t s) {
            const vec<T> weight = exponential(leaky<T>(load(values + at) + dst[s], t.slope) - largest[s]);
            store(values + at, weight);
            sums[s] += weight;
        });
        turns.fold(sums, total.data(), [](auto a, auto b) { return a + b; });
        if (t.dropout.bound == 0) return;
        for (int64_t e = 0; e < count; ++e)
            for (int64_t h = 0; h < heads; ++h) values[e * heads + h] *= t.dropout.template factor<T>(block + e, h);
    }

    const GatTask<T, I>& t;
    const int64_t heads;
    const Turns<T, H> turns;
    const std::vector<Part<HeadSum<T, I>>> parts;
    std::vector<T> factor, top, total, scale;
    LaneBuffer<T> laid_dst, laid_top, lane;
};

// A row of very many edges: its segments are shared out and added in their order.
template <class T, class I, int H>
void attend_hub(const GatTask<T, I>& t, int64_t row, T* out, int threads) {
    const int64_t begin = t.a.indptr[row], end = t.a.indptr[row + 1], width = t.heads * t.width;
    const int64_t segments = (end - begin + kHubSegment - 1) / kHubSegment;
    Attention<T, I, H> whole(t);
    whole.find_top(row, begin, end);
    std::vector<T> partial(segments * width), sums(segments * t.heads), total(t.heads);
#pragma omp parallel num_threads(threads)
    {
        Attention<T, I, H> mine(t);
        mine.tops() = whole.tops();
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < segments; ++s) {
            const int64_t from = begin + s * kHubSegment;
            mine.segment(row, from, std::min(from + kHubSegment, end), partial.data() + s * width, false);
            std::copy(mine.totals().begin(), mine.totals().end(), sums.begin() + s * t.heads);
        }
    }
    add_partial(partial, width, out);
    add_partial(sums, t.heads, total.data());
    for (int64_t c = 0; c < width; ++c) out[c] /= total[c / t.width];
    whole.keep(row, whole.tops().data(), total.data());
}

template <class T, class I, int H>
void attend_rows(const GatTask<T, I>& t, const RowPlan& plan, T* out, int threads) {
#pragma omp parallel num_threads(threads)
    {
        Attention<T, I, H> mine(t);
#pragma omp for schedule(dynamic, 1)
        for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
            for (int64_t row = plan.bounds[chunk]; row < plan.bounds[chunk + 1]; ++row)
                if (t.a.indptr[row + 1] - t.a.indptr[row] <= kHubSegment) mine.row(row, out + row * t.heads * t.width);
    }
    for (int64_t h = 0; h < plan.hub_count; ++h)
        attend_hub<T, I, H>(t, plan.hubs[h], out + plan.hubs[h] * t.heads * t.width, threads);
}

template <class T, class I>
void gat_forward(const GatTask<T, I>& t, const RowPlan& plan, T* out, int threads) {
    switch (t.heads) {
        case 1: return attend_rows<T, I, 1>(t, plan, out, threads);
        case 4: return attend_rows<T, I, 4>(t, plan, out, threads);
        case 8: return attend_rows<T, I, 8>(t, plan, out, threads);
        default: return attend_rows<T, I, 0>(t, plan, out, threads);
    }
}

}  // namespace kernels
