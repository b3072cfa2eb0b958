// The mask of dropout, a hash of (key, row, column): computed again wherever it is needed, never stored. Rows are nodes
// with columns of their features, or edges with heads.
#pragma once
#include <cstring>

#include "common/hash.hpp"
#include "common/vector.hpp"

namespace kernels {

template <class T>
struct Dropout {
    uint64_t key;
    uint32_t bound;          // entries whose word is below it are dropped
    T scale;                 // of retained entries
    const int64_t* numbers;  // [rows] or null: the row's own number
};

// The two keys of a row's words. One alone would let long rows share runs of words with others.
struct RowKeys {
    uint32_t first, second;
};

template <class T>
inline RowKeys keys_of(const Dropout<T>& dropout, int64_t row) {
    const uint64_t word = keyed(dropout.key, dropout.numbers == nullptr ? row : dropout.numbers[row]);
    return {uint32_t(word), uint32_t(word >> 32)};
}

constexpr uint32_t kColumnStep = 0x9E3779B1;

// Words of entries from their columns times kColumnStep: a 32-bit finaliser whose high bits are used alone.
template <class Words, class Keys>
inline Words words_of(Words steps, Keys first, Keys second) {
    Words word = steps + first;
    word = (word ^ (word >> 16)) * 0x7FEB352Du;
    word ^= second;
    return (word ^ (word >> 15)) * 0x846CA68Bu;
}

template <class Words>
inline Words words_of(Words steps, RowKeys keys) {
    return words_of(steps, keys.first, keys.second);
}

template <int N>
struct Lanes {
    typedef uint32_t words __attribute__((vector_size(N * 4)));
    typedef int64_t wide __attribute__((vector_size(N * 8)));
};

// value * scale where the word is not below the bound, else 0.
template <class T, int N>
inline vecn<T, N> retained(vecn<T, N> value, typename Lanes<N>::words word, const Dropout<T>& dropout) {
    const auto kept = word >= dropout.bound;
    const vecn<T, N> scaled = value * dropout.scale;
    if constexpr (sizeof(T) == 4)
        return kept ? scaled : vecn<T, N>{};
    else
        return __builtin_convertvector(kept, typename Lanes<N>::wide) ? scaled : vecn<T, N>{};
}

// Words of a whole vector of consecutive columns.
template <class T>
inline typename Lanes<lanes<T>>::words column_words(RowKeys keys, int64_t column) {
    typename Lanes<lanes<T>>::words steps;
    for (int lane = 0; lane < lanes<T>; ++lane) steps[lane] = uint32_t(column + lane) * kColumnStep;
    return words_of(steps, keys);
}

// Dropout of one row, or of none where there is no dropout.
template <class T>
struct RowDropout {
    const Dropout<T>* dropout;
    RowKeys keys;

    RowDropout(const Dropout<T>* dropout, int64_t row) : dropout(dropout), keys{} {
        if (dropout != nullptr) keys = keys_of(*dropout, row);
    }

    // A vector of values from `column` on.
    vec<T> operator()(vec<T> value, int64_t column) const {
        return dropout == nullptr ? value : retained<T, lanes<T>>(value, column_words<T>(keys, column), *dropout);
    }
};

template <class Words>
inline Words load_words(const uint32_t* from) {
    Words words;
    std::memcpy(&words, from, sizeof words);
    return words;
}

}  // namespace kernels
