// Dropout of rows and of stored values, forward and backward alike.
#pragma once
#include <algorithm>
#include <vector>

#include "common/gather.hpp"
#include "common/mask.hpp"
#include "common/matrix.hpp"

namespace kernels {

// One row of `width` values at consecutive columns.
template <class T>
inline void drop_row(const Dropout<T>& dropout, int64_t row, const T* x, T* y, int64_t width, bool streamed) {
    constexpr int N = lanes<T>;
    using Words = typename Lanes<N>::words;
    const RowKeys keys = keys_of(dropout, row);
    Words steps;
    for (int lane = 0; lane < N; ++lane) steps[lane] = lane * kColumnStep;
    int64_t column = 0;
    for (; column + N <= width; column += N, steps += N * kColumnStep) {
        const vec<T> value = retained<T, N>(load(x + column), words_of(steps, keys), dropout);
        streamed ? stream_pack<N>(y + column, value) : store(y + column, value);
    }
    if (column == width) return;
    T rest[N] = {};
    std::copy(x + column, x + width, rest);
    store(rest, retained<T, N>(load(rest), words_of(steps, keys), dropout));
    std::copy(rest, rest + (width - column), y + column);
}

template <class T>
void drop(const Dropout<T>& dropout, const T* x, T* y, int64_t rows, int64_t width, int threads) {
    const bool streamed = streams(y, rows, 1, width);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; ++row)
            drop_row(dropout, row, x + row * width, y + row * width, width, streamed);
        if (streamed) stream_fence();
    }
}

// Entries whose words are computed together: so many that what was written last has left the store buffer when whole
// vectors of it are read.
struct EntryBlock {
    static constexpr int64_t kSize = 256;
    uint32_t steps[kSize], first[kSize], second[kSize];  // columns times kColumnStep, and keys

    void set(int64_t at, RowKeys keys) { first[at] = keys.first, second[at] = keys.second; }
};

template <class T>
inline void drop_entries(const Dropout<T>& dropout, const EntryBlock& block, const T* x, T* y, int64_t count) {
    constexpr int64_t N = lanes<T>;
    using Words = typename Lanes<N>::words;
    int64_t i = 0;
    for (; i + N <= count; i += N) {
        const Words first = load_words<Words>(block.first + i), second = load_words<Words>(block.second + i);
        const Words words = words_of(load_words<Words>(block.steps + i), first, second);
        store(y + i, retained<T, N>(load(x + i), words, dropout));
    }
    for (; i < count; ++i) {
        const T scaled = x[i] * dropout.scale;
        y[i] = words_of(block.steps[i], block.first[i], block.second[i]) >= dropout.bound ? scaled : T(0);
    }
}

// The stored values of rows [row, end) of a sparse matrix.
template <class T, class I>
inline void drop_rows(const Dropout<T>& dropout, const CsrView<I>& a, int64_t row, int64_t end, const T* x, T* y) {
    EntryBlock block;
    const int64_t last = a.indptr[end];
    for (int64_t begin = a.indptr[row]; begin < last;) {
        const int64_t size = std::min(EntryBlock::kSize, last - begin);
        for (int64_t i = 0; i < size;) {
            while (int64_t(a.indptr[row + 1]) <= begin + i) ++row;
            const RowKeys keys = keys_of(dropout, row);
            const int64_t row_end = std::min<int64_t>(size, int64_t(a.indptr[row + 1]) - begin);
            for (; i < row_end; ++i) block.set(i, keys);
        }
        for (int64_t i = 0; i < size; ++i) block.steps[i] = uint32_t(a.indices[begin + i]) * kColumnStep;
        drop_entries(dropout, block, x + begin, y + begin, size);
        begin += size;
    }
}

template <class T, class I>
void drop_stored(const Dropout<T>& dropout, const CsrView<I>& a, const RowPlan& plan, const T* x, T* y, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
        drop_rows(dropout, a, plan.bounds[chunk], plan.bounds[chunk + 1], x, y);
}

// One row of a transpose: `column` of the mask, whose nodes are the row's.
template <class T, class I>
inline void drop_column(const Dropout<T>& dropout, const RowKeys* keys, int64_t column, const I* nodes, const T* x, T* y,
                        int64_t count, EntryBlock& block) {
    std::fill_n(block.steps, std::min(EntryBlock::kSize, count), uint32_t(column) * kColumnStep);
    for (int64_t begin = 0; begin < count; begin += EntryBlock::kSize) {
        const int64_t size = std::min(EntryBlock::kSize, count - begin);
        for (int64_t i = 0; i < size; ++i) block.set(i, keys[nodes[begin + i]]);
        drop_entries(dropout, block, x + begin, y + begin, size);
    }
}

// The stored values of a transpose: `a` has a row for each column of the mask, and a column for each of its `nodes`.
template <class T, class I>
void drop_columns(const Dropout<T>& dropout, const CsrView<I>& a, const RowPlan& plan, int64_t nodes, const T* x, T* y,
                  int threads) {
    std::vector<RowKeys> keys(nodes);
#pragma omp parallel num_threads(threads)
    {
        EntryBlock block;
#pragma omp for schedule(static)
        for (int64_t node = 0; node < nodes; ++node) keys[node] = keys_of(dropout, node);
#pragma omp for schedule(dynamic, 1)
        for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
            for (int64_t row = plan.bounds[chunk]; row < plan.bounds[chunk + 1]; ++row) {
                const int64_t begin = a.indptr[row], count = int64_t(a.indptr[row + 1]) - begin;
                drop_column(dropout, keys.data(), row, a.indices + begin, x + begin, y + begin, count, block);
            }
    }
}

}  // namespace kernels
