// Y = A X + B over in-edges: a row's sums stay in registers across all its edges and are written once.
#pragma once
#include <algorithm>
#include <vector>

#include "common/dispatch.hpp"
#include "common/gather.hpp"
#include "common/hub_segments.hpp"

namespace kernels {

constexpr int64_t kNearBytes = 16ll << 20;     // short rows of a table up to this size come soon enough without prefetch

template <class T, class I>
struct SpmmTask {
    CsrView<I> a;
    const T* x;
    const T* weight;     // [nnz] or null
    const T* row_scale;  // [rows] or null
    const T* addend;     // B [rows, width] or null; may be y itself
    T* y;
    int64_t columns, width;  // X is [columns, width]
    const I* starts;         // [panels + 1, rows] or null: where each row's edges of each column panel begin
    int64_t panels;          // 1 without

    bool near() const { return columns * width * int64_t(sizeof(T)) <= kNearBytes; }
};

// acc += weight * X of one edge, in V vectors of N lanes that cover `columns`; edges up to `last` are prefetched.
template <class T, class I, int N, int V, bool Weighted, bool Fetched>
inline void add_edge(const SpmmTask<T, I>& t, Columns columns, int64_t e, int64_t last, vecn<T, N> (&acc)[V]) {
    const T* x = t.x + columns.first;
    if constexpr (Fetched) {
        const int64_t next = std::min(e + ahead_of<T, N, V>, last);
        prefetch<T, N, V>(x + int64_t(t.a.indices[next]) * t.width);
    }
    const T* row = x + int64_t(t.a.indices[e]) * t.width;
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) {
        const auto value = load_pack<N>(row + column<N, V>(v, columns.width));
        acc[v] += Weighted ? t.weight[e] * value : value;
    }
}

// acc += weight * X over edges [begin, end). Rows of one cache line alternate between two sums, prefetched or not: in one
// sum each addition would wait for the one before.
template <class T, class I, int N, int V, bool Weighted, bool Fetched>
inline void add_edges(const SpmmTask<T, I>& t, Columns columns, int64_t begin, int64_t end, vecn<T, N> (&acc)[V]) {
    const int64_t last = (t.starts == nullptr ? t.a.edges() : end) - 1;  // a row's next edges lie in another panel
    int64_t e = begin;
    if constexpr (bytes_of<T, N, V> <= 64) {
        vecn<T, N> other[V] = {};
        for (; e + 1 < end; e += 2) {
            add_edge<T, I, N, V, Weighted, Fetched>(t, columns, e, last, acc);
            add_edge<T, I, N, V, Weighted, Fetched>(t, columns, e + 1, last, other);
        }
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) acc[v] += other[v];
    }
    for (; e < end; ++e) add_edge<T, I, N, V, Weighted, Fetched>(t, columns, e, last, acc);
}

// The same, with prefetch where it pays.
template <class T, class I, int N, int V, bool Weighted>
inline void gather(const SpmmTask<T, I>& t, Columns columns, int64_t begin, int64_t end, vecn<T, N> (&acc)[V]) {
    if constexpr (bytes_of<T, N, V> <= 128)
        if (t.near()) return add_edges<T, I, N, V, Weighted, false>(t, columns, begin, end, acc);
    add_edges<T, I, N, V, Weighted, true>(t, columns, begin, end, acc);
}

// acc = scale * acc + addend; vectors of a row overlap, so all are read before the first is written over them.
template <class T, int N, int V>
inline void add_scaled(const T* addend, int64_t width, T scale, vecn<T, N> (&acc)[V]) {
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) acc[v] = acc[v] * scale + load_pack<N>(addend + column<N, V>(v, width));
}

// Fetch what the first edges of a row read in a panel, while the row before it is summed.
template <class T, class I, int N, int V>
inline void fetch_first(const SpmmTask<T, I>& t, Columns columns, int64_t begin, int64_t end) {
    for (int64_t e = begin; e < std::min(begin + ahead_of<T, N, V>, end); ++e)
        prefetch<T, N, V>(t.x + columns.first + int64_t(t.a.indices[e]) * t.width);
}

// One group of columns of one piece of the rows in one panel, hubs left out; panels after the first add to the result.
template <class T, class I, bool Weighted, bool Paneled>
struct RowSums {
    using Function = void (*)(const SpmmTask<T, I>&, Columns, int64_t, int64_t, int64_t, bool);

    template <int N, int V>
    static void run(const SpmmTask<T, I>& t, Columns columns, int64_t first, int64_t last, int64_t panel,
                    bool streamed) {
        const I* from = Paneled ? t.starts + panel * t.a.rows : t.a.indptr;
        const I* to = Paneled ? from + t.a.rows : t.a.indptr + 1;
        const T* addend = panel > 0 ? t.y : t.addend;
        for (int64_t row = first; row < last; ++row) {
            const int64_t begin = from[row], end = to[row];
            const int64_t degree = Paneled ? t.a.indptr[row + 1] - t.a.indptr[row] : end - begin;
            if (degree > kHubSegment) continue;
            if (Paneled && row + 1 < last) fetch_first<T, I, N, V>(t, columns, from[row + 1], to[row + 1]);
            if (Paneled && panel > 0 && begin == end) continue;
            vecn<T, N> acc[V] = {};
            gather<T, I, N, V, Weighted>(t, columns, begin, end, acc);
            T scale = t.row_scale == nullptr ? T(1) : t.row_scale[row];
            const int64_t at = row * t.width + columns.first;
            if (addend != nullptr) {
                add_scaled<T, N, V>(addend + at, columns.width, scale, acc);
                scale = T(1);
            }
            write<T, N, V>(acc, t.y + at, columns.width, scale, streamed);
        }
    }

    template <int N, int V>
    Function pick() const {
        return &run<N, V>;
    }
};

// One group of columns of edges [begin, end) of one row, into `out`.
template <class T, class I, bool Weighted>
struct SegmentSum {
    using Function = void (*)(const SpmmTask<T, I>&, Columns, int64_t, int64_t, T*);

    template <int N, int V>
    static void run(const SpmmTask<T, I>& t, Columns columns, int64_t begin, int64_t end, T* out) {
        vecn<T, N> acc[V] = {};
        gather<T, I, N, V, Weighted>(t, columns, begin, end, acc);
        write<T, N, V>(acc, out + columns.first, columns.width, T(1), false);
    }

    template <int N, int V>
    Function pick() const {
        return &run<N, V>;
    }
};

template <class T, class I, bool Weighted>
void sum_hubs(const SpmmTask<T, I>& t, const RowPlan& plan, int threads) {
    const HubSegments<I> segments(t.a.indptr, plan);
    const int64_t count = segments.count();
    const Cut<T> cut(t.width);
    std::vector<T> partial(count * t.width);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < count; ++s) {
            const HubSegment segment = segments[s];
            T* const to = partial.data() + s * t.width;
            for (int64_t g = 0; g < cut.groups; ++g) {
                const Columns columns = cut.group(g);
                choose<T>(columns.width, SegmentSum<T, I, Weighted>{})(t, columns, segment.begin, segment.end, to);
            }
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t hub = 0; hub < plan.hub_count; ++hub) {
            const T* sums = segments.summed(partial, t.width, hub);
            const int64_t row = segments.row(hub);
            const T scale = t.row_scale == nullptr ? T(1) : t.row_scale[row];
            for (int64_t c = 0, at = row * t.width; c < t.width; ++c, ++at)
                t.y[at] = sums[c] * scale + (t.addend == nullptr ? T(0) : t.addend[at]);
        }
    }
}

constexpr int64_t kTasksPerThread = 4;

// Into how many slices of its groups of columns each piece of rows is cut: few pieces leave threads without work.
inline int64_t slices_of(int64_t pieces, int64_t groups, int threads) {
    return std::min(groups, (kTasksPerThread * threads + pieces - 1) / pieces);
}

template <class T, class I, bool Weighted, bool Paneled>
void spmm_panels(const SpmmTask<T, I>& t, const RowPlan& plan, int threads) {
    const Cut<T> cut(t.width);
    const bool streamed = streams(t.y, t.a.rows, 1, t.width);
    const int64_t slices = slices_of(plan.chunks, cut.groups, threads), tasks = plan.chunks * slices;
#pragma omp parallel num_threads(threads)
    {
        for (int64_t panel = 0; panel < t.panels; ++panel) {
#pragma omp for schedule(dynamic, 1) nowait
            for (int64_t task = 0; task < tasks; ++task) {
                const int64_t chunk = task / slices, slice = task % slices;
                for (int64_t g = slice * cut.groups / slices; g < (slice + 1) * cut.groups / slices; ++g) {
                    const Columns columns = cut.group(g);
                    choose<T>(columns.width, RowSums<T, I, Weighted, Paneled>{})(t, columns, plan.bounds[chunk],
                                                                        plan.bounds[chunk + 1], panel,
                                                                        streamed && panel == 0);
                }
            }
            stream_fence();
            if constexpr (Paneled) {
                // All threads read the same panel, and none adds to a row that another still writes.
#pragma omp barrier
            }
        }
    }
    if (plan.hub_count > 0) sum_hubs<T, I, Weighted>(t, plan, threads);
}

template <class T, class I, bool Weighted>
void spmm_rows(const SpmmTask<T, I>& t, const RowPlan& plan, int threads) {
    t.starts == nullptr ? spmm_panels<T, I, Weighted, false>(t, plan, threads)
                        : spmm_panels<T, I, Weighted, true>(t, plan, threads);
}

// Where each row's edges of each of `panels` ranges of columns begin, [panels + 1, rows]; false for columns that descend.
template <class I>
bool cut_panels(const CsrView<I>& a, int64_t columns, int64_t panels, I* starts, int threads) {
    bool ascending = true;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(&& : ascending)
    for (int64_t row = 0; row < a.rows; ++row) {
        I at = a.indptr[row];
        const I first = at, end = a.indptr[row + 1];
        for (int64_t panel = 0; panel <= panels; ++panel) {
            const int64_t bound = panel * columns / panels;
            for (; at < end && int64_t(a.indices[at]) < bound; ++at)
                ascending = ascending && (at == first || a.indices[at - 1] <= a.indices[at]);
            starts[panel * a.rows + row] = at;
        }
    }
    return ascending;
}

}  // namespace kernels
