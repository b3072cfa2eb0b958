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
    const First<T> rest(width - column);
    rest.store(y + column, retained<T, N>(rest.load(x + column), words_of(steps, keys), dropout));
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

constexpr int64_t kEntryPiece = 2048, kEntryPieces = 1024;  // entries of a piece at least, pieces about at most

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

// The stored values [begin, last) in blocks that may span rows, since most rows are shorter than a block.
// `of_row(block, row, i, end)` sets what the entries i to end of a row share, `of_entry(block, i, index)` the rest.
template <class T, class I, class OfRow, class OfEntry>
inline void drop_stored_values(const Dropout<T>& dropout, const CsrView<I>& a, int64_t begin, int64_t last, const T* x,
                               T* y, const OfRow& of_row, const OfEntry& of_entry) {
    EntryBlock block;
    int64_t row = std::upper_bound(a.indptr, a.indptr + a.rows + 1, I(begin)) - a.indptr - 1;
    while (begin < last) {
        const int64_t size = std::min(EntryBlock::kSize, last - begin);
        for (int64_t i = 0; i < size;) {
            while (int64_t(a.indptr[row + 1]) <= begin + i) ++row;
            const int64_t row_end = std::min<int64_t>(size, int64_t(a.indptr[row + 1]) - begin);
            of_row(block, row, i, row_end);
            i = row_end;
        }
        for (int64_t i = 0; i < size; ++i) of_entry(block, i, a.indices[begin + i]);
        drop_entries(dropout, block, x + begin, y + begin, size);
        begin += size;
    }
}

// Call work(begin, end) for pieces of a matrix's entries, which are independent: a long row is no special case.
template <class I, class Work>
inline void each_piece_of_entries(const CsrView<I>& a, const Work& work) {
    const int64_t entries = a.edges(), size = std::max(kEntryPiece, entries / kEntryPieces);
#pragma omp for schedule(dynamic, 1)
    for (int64_t begin = 0; begin < entries; begin += size) work(begin, std::min(begin + size, entries));
}

// The stored values of a sparse matrix whose rows are the mask's.
template <class T, class I>
void drop_stored(const Dropout<T>& dropout, const CsrView<I>& a, const T* x, T* y, int threads) {
    const auto keys = [&](EntryBlock& block, int64_t row, int64_t i, int64_t end) {
        for (const RowKeys keys = keys_of(dropout, row); i < end; ++i) block.set(i, keys);
    };
    const auto steps = [](EntryBlock& block, int64_t i, I column) { block.steps[i] = uint32_t(column) * kColumnStep; };
#pragma omp parallel num_threads(threads)
    each_piece_of_entries(a, [&](int64_t begin, int64_t end) {
        drop_stored_values(dropout, a, begin, end, x, y, keys, steps);
    });
}

// The stored values of a transpose: `a` has a row for each column of the mask, and a column for each of its `nodes`.
template <class T, class I>
void drop_columns(const Dropout<T>& dropout, const CsrView<I>& a, int64_t nodes, const T* x, T* y, int threads) {
    std::vector<RowKeys> keys_of_nodes(nodes);
    const auto steps = [](EntryBlock& block, int64_t column, int64_t i, int64_t end) {
        std::fill(block.steps + i, block.steps + end, uint32_t(column) * kColumnStep);
    };
    const auto keys = [&](EntryBlock& block, int64_t i, I node) { block.set(i, keys_of_nodes[node]); };
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t node = 0; node < nodes; ++node) keys_of_nodes[node] = keys_of(dropout, node);
        each_piece_of_entries(a, [&](int64_t begin, int64_t end) {
            drop_stored_values(dropout, a, begin, end, x, y, steps, keys);
        });
    }
}

}  // namespace kernels
