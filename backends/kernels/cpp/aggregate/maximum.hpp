// Largest weighted source row over in-edges, column by column, and the edge that won each; ties go to the first edge.
#pragma once
#include <algorithm>
#include <type_traits>

#include "common/dispatch.hpp"
#include "common/gather.hpp"
#include "common/hub_segments.hpp"

namespace kernels {

constexpr int kMaxGroup = 4;  // vectors in registers at once, each with the edges that won it
constexpr int64_t kSharedRun = 16;  // rows of a gradient in a run: one column of them fills a cache line
constexpr int64_t kListed = 512;    // entries of a gradient that are added together
constexpr int64_t kNearGradient = 4 << 20;  // bytes of a gradient in the nearest caches, where several threads gain nothing

// One integer as wide as a lane: an edge's place in its row, which has less than 2^31.
template <class T>
using place_of = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
template <class T>
using lane_index = decltype(vec<T>{} < vec<T>{});

template <class T, class I>
struct MaxTask {
    CsrView<I> a;
    const T* x;       // [columns, width]
    const T* weight;  // [nnz] or null
    T* y;             // [rows, width]; 0 where a row has no edges
    I* winner;        // [rows, width]: position of the edge, -1 where a row has none
    int64_t width;

    inline T factor(int64_t edge) const { return weight != nullptr ? weight[edge] : T(1); }
    inline const T* source(int64_t edge) const { return x + int64_t(a.indices[edge]) * width; }
};

// Whether a value beats the best so far. A NaN wins, as in torch: the comparison is "not at most".
template <class T>
inline bool beats(T value, T best) {
    return !(value <= best) && best == best;
}

// Vectors [first, first + V) of edges [begin, end), one at least, into a row of the result.
template <class T, class I, int V>
inline void max_group(const MaxTask<T, I>& t, int64_t row, int64_t begin, int64_t end, int64_t first) {
    const int64_t limit = t.a.indptr[t.a.rows];
    vec<T> best[V];
    lane_index<T> place[V] = {};
    int64_t at[V];
    for (int v = 0; v < V; ++v) {
        at[v] = offset<T>(first + v, t.width);
        best[v] = t.factor(begin) * load(t.source(begin) + at[v]);
    }
    for (int64_t e = begin + 1; e < end; ++e) {
        const T* from = t.source(e);
        if (first == 0 && e + kAhead < limit) prefetch_row(t.source(e + kAhead), t.width);
        const vec<T> factor = broadcast(t.factor(e));
        const lane_index<T> here = lane_index<T>{} + place_of<T>(e - begin);
        for (int v = 0; v < V; ++v) {
            const vec<T> value = factor * load(from + at[v]);
            const lane_index<T> better = ~(value <= best[v]) & (best[v] == best[v]);
            best[v] = better ? value : best[v];
            place[v] = better ? here : place[v];
        }
    }
    for (int v = 0; v < V; ++v) {
        store(t.y + row * t.width + at[v], best[v]);
        for (int l = 0; l < lanes<T>; ++l) t.winner[row * t.width + at[v] + l] = I(begin + place[v][l]);
    }
}

template <class T, class I>
inline void max_narrow(const MaxTask<T, I>& t, int64_t row, int64_t begin, int64_t end) {
    for (int64_t c = 0; c < t.width; ++c) {
        T best = t.factor(begin) * t.source(begin)[c];
        int64_t winner = begin;
        for (int64_t e = begin + 1; e < end; ++e) {
            const T value = t.factor(e) * t.source(e)[c];
            if (beats(value, best)) best = value, winner = e;
        }
        t.y[row * t.width + c] = best;
        t.winner[row * t.width + c] = I(winner);
    }
}

// The largest values of edges [begin, end), one at least, and their edges, into a row of the result.
template <class T, class I>
void max_edges(const MaxTask<T, I>& t, int64_t row, int64_t begin, int64_t end) {
    if (t.width < lanes<T>) return max_narrow(t, row, begin, end);
    const int64_t vectors = (t.width + lanes<T> - 1) / lanes<T>, groups = (vectors + kMaxGroup - 1) / kMaxGroup;
    for (int64_t g = 0; g < groups; ++g) {
        const int64_t first = g * vectors / groups;
        with_vectors<kMaxGroup>((g + 1) * vectors / groups - first,
                                [&]<int V>() { max_group<T, I, V>(t, row, begin, end, first); });
    }
}

template <class T, class I>
void max_row(const MaxTask<T, I>& t, int64_t row) {
    const int64_t begin = t.a.indptr[row], end = t.a.indptr[row + 1];
    if (begin < end) return max_edges(t, row, begin, end);
    std::fill_n(t.y + row * t.width, t.width, T(0));
    std::fill_n(t.winner + row * t.width, t.width, I(-1));
}

template <class T, class I>
void max_hubs(const MaxTask<T, I>& t, const RowPlan& plan, int threads) {
    const HubSegments<I> segments(t.a.indptr, plan);
    const int64_t count = segments.count();
    std::vector<T> largest(count * t.width);
    std::vector<I> winners(count * t.width);
    MaxTask<T, I> by_segment = t;
    by_segment.y = largest.data(), by_segment.winner = winners.data();
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < count; ++s) {
            const HubSegment segment = segments[s];
            max_edges(by_segment, s, segment.begin, segment.end);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t hub = 0; hub < plan.hub_count; ++hub) {
            const int64_t first = segments.first_of(hub), at = segments.row(hub) * t.width;
            std::copy_n(largest.begin() + first * t.width, t.width, t.y + at);
            std::copy_n(winners.begin() + first * t.width, t.width, t.winner + at);
            for (int64_t s = first + 1; s < segments.first_of(hub + 1); ++s)
                for (int64_t c = 0; c < t.width; ++c)
                    if (beats(largest[s * t.width + c], t.y[at + c]))
                        t.y[at + c] = largest[s * t.width + c], t.winner[at + c] = winners[s * t.width + c];
        }
    }
}

template <class T, class I>
void max_rows(const MaxTask<T, I>& t, const RowPlan& plan, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
        for (int64_t row = plan.bounds[chunk]; row < plan.bounds[chunk + 1]; ++row)
            if (t.a.indptr[row + 1] - t.a.indptr[row] <= kHubSegment) max_row(t, row);
    if (plan.hub_count > 0) max_hubs(t, plan, threads);
}

// A thread's share of grad_x: columns [first, last) of the rows that are dealt to `part` of `parts`.
struct GradientShare {
    int64_t first, last;
    uint32_t part, parts;

    // Runs of rows are dealt by a hash: equal ranges would give hubs that lie together to one thread.
    bool owns(int64_t source) const {
        const uint32_t word = uint32_t(source / kSharedRun) * 0x9E3779B1u;
        return uint32_t(uint64_t(word) * parts >> 32) == part;
    }
};

// Add what each winner in a share gets back, in the order of the rows.
template <class T, class I>
void add_winners(const MaxTask<T, I>& t, const T* grad, T* grad_x, const GradientShare& share) {
    for (int64_t row = 0; row < t.a.rows; ++row) {
        if (t.a.indptr[row] == t.a.indptr[row + 1]) continue;
        for (int64_t c = share.first; c < share.last; ++c) {
            const int64_t winner = t.winner[row * t.width + c];
            grad_x[int64_t(t.a.indices[winner]) * t.width + c] += t.factor(winner) * grad[row * t.width + c];
        }
    }
}

// The same where others own rows too. Which entries are one's own cannot be predicted: they are listed without a branch.
template <class T, class I>
void add_own_winners(const MaxTask<T, I>& t, const T* grad, T* grad_x, const GradientShare& share) {
    struct Entry {
        int64_t from, to;
    } listed[kListed];
    int64_t count = 0;
    const auto add = [&] {
        for (int64_t k = 0; k < count; ++k)
            grad_x[listed[k].to] += t.factor(t.winner[listed[k].from]) * grad[listed[k].from];
        count = 0;
    };
    for (int64_t row = 0; row < t.a.rows; ++row) {
        if (t.a.indptr[row] == t.a.indptr[row + 1]) continue;
        for (int64_t c = share.first; c < share.last; ++c) {
            const int64_t from = row * t.width + c, source = t.a.indices[t.winner[from]];
            listed[count] = {from, source * t.width + c};
            count += share.owns(source);
            if (count == kListed) add();
        }
    }
    add();
}

// grad_x [columns, width], zeros before: what each winner gets back. Threads own columns, 64 bytes of them at least, and
// where there are more threads than that, rows: each then reads all winners of its columns, which takes a tenth of the time
// that their sums take in a table beyond the nearest caches, and needs no memory. No sum depends on the threads.
template <class T, class I>
void max_backward_x(const MaxTask<T, I>& t, const T* grad, T* grad_x, int64_t columns, int threads) {
    constexpr int64_t line = 64 / sizeof(T);
    const int64_t lines = (t.width + line - 1) / line, slices = std::min<int64_t>(threads, lines);
    const bool is_near = columns * t.width * int64_t(sizeof(T)) <= kNearGradient;
    const int64_t parts = is_near ? 1 : std::max<int64_t>(threads / std::max<int64_t>(slices, 1), 1);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int64_t share = 0; share < slices * parts; ++share) {
        const int64_t slice = share / parts, first = slice * lines / slices * line;
        const int64_t last = std::min((slice + 1) * lines / slices * line, t.width);
        const GradientShare own{first, last, uint32_t(share % parts), uint32_t(parts)};
        parts == 1 ? add_winners(t, grad, grad_x, own) : add_own_winners(t, grad, grad_x, own);
    }
}

// grad_weight [nnz], zeros before; the edges of a row belong to one thread.
template <class T, class I>
void max_backward_weight(const MaxTask<T, I>& t, const RowPlan& plan, const T* grad, T* grad_weight, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
        for (int64_t row = plan.bounds[chunk]; row < plan.bounds[chunk + 1]; ++row) {
            if (t.a.indptr[row] == t.a.indptr[row + 1]) continue;
            for (int64_t c = 0; c < t.width; ++c) {
                const int64_t winner = t.winner[row * t.width + c];
                grad_weight[winner] += t.source(winner)[c] * grad[row * t.width + c];
            }
        }
}

}  // namespace kernels
