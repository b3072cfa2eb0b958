// Vectors of numbers, unaligned: 64 bytes where the build has AVX-512, else 32; narrower ones for narrow rows.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace kernels {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kGroup = 16;  // vectors of one row in registers at once: half of them, the rest is for operands
#else
constexpr int kVectorBytes = 32;
constexpr int kGroup = 8;
#endif

template <class T, int N>
struct Pack {
    typedef T type __attribute__((vector_size(N * sizeof(T))));
};

template <class T, int N>
using vecn = typename Pack<T, N>::type;

template <class T>
constexpr int lanes = kVectorBytes / int(sizeof(T));

template <class T>
using vec = vecn<T, lanes<T>>;

template <int N, class T>
inline vecn<T, N> load_pack(const T* from) {
    vecn<T, N> value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <class T>
inline vec<T> load(const T* from) {
    return load_pack<lanes<T>>(from);
}

template <int N, class T>
inline void store_pack(T* to, vecn<T, N> value) {
    std::memcpy(to, &value, sizeof value);
}

template <class T>
inline void store(T* to, vec<T> value) {
    store_pack<lanes<T>>(to, value);
}

// The columns of a row that one vector reads and writes: as many as it has lanes.
template <class T>
struct Whole {
    vec<T> load(const T* from) const { return kernels::load(from); }
    void store(T* to, vec<T> value) const { kernels::store(to, value); }
};

// The first `count` lanes, fewer than a vector has: what a row's width leaves. Other lanes are 0 and not written. Parts
// copied through memory would wait until narrow stores have left the store buffer.
#if defined(__AVX512F__)
template <class T>
struct First {
    unsigned mask;

    explicit First(int64_t count) : mask((1u << count) - 1) {}

    vec<T> load(const T* from) const {
        if constexpr (sizeof(T) == 4)
            return vec<T>(_mm512_maskz_loadu_ps(__mmask16(mask), from));
        else
            return vec<T>(_mm512_maskz_loadu_pd(__mmask8(mask), from));
    }

    void store(T* to, vec<T> value) const {
        if constexpr (sizeof(T) == 4)
            _mm512_mask_storeu_ps(to, __mmask16(mask), __m512(value));
        else
            _mm512_mask_storeu_pd(to, __mmask8(mask), __m512d(value));
    }
};
#elif defined(__AVX2__)
template <class T>
struct First {
    __m256i mask;

    explicit First(int64_t count) {
        if constexpr (sizeof(T) == 4)
            mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(int(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        else
            mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
    }

    vec<T> load(const T* from) const {
        if constexpr (sizeof(T) == 4)
            return vec<T>(_mm256_maskload_ps(from, mask));
        else
            return vec<T>(_mm256_maskload_pd(from, mask));
    }

    void store(T* to, vec<T> value) const {
        if constexpr (sizeof(T) == 4)
            _mm256_maskstore_ps(to, mask, __m256(value));
        else
            _mm256_maskstore_pd(to, mask, __m256d(value));
    }
};
#else
template <class T>
struct First {
    int64_t count;

    explicit First(int64_t count) : count(count) {}

    vec<T> load(const T* from) const {
        vec<T> value{};
        std::memcpy(&value, from, count * sizeof(T));
        return value;
    }

    void store(T* to, vec<T> value) const { std::memcpy(to, &value, count * sizeof(T)); }
};
#endif

// Store around the caches; `to` is aligned to the vector.
template <int N, class T>
inline void stream_pack(T* to, vecn<T, N> value) {
#if defined(__AVX512F__)
    if constexpr (N * sizeof(T) == 64) {
        __m512i bits;
        std::memcpy(&bits, &value, sizeof bits);
        return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), bits);
    }
#elif defined(__AVX__)
    if constexpr (N * sizeof(T) == 32) {
        __m256i bits;
        std::memcpy(&bits, &value, sizeof bits);
        return _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bits);
    }
#endif
    store_pack<N>(to, value);
}

// Order streamed stores before what other threads do next.
inline void stream_fence() {
#if defined(__AVX__)
    _mm_sfence();
#endif
}

template <class T>
inline vec<T> broadcast(T value) {
    return value - vec<T>{};  // not a sum: that must turn -0 into 0 and costs an addition
}

template <class T, int N, int Which, int... Lane>
inline vecn<T, N / 2> half_of(vecn<T, N> value, std::integer_sequence<int, Lane...>) {
    return __builtin_shufflevector(value, value, (Which * N / 2 + Lane)...);
}

// The lower (0) or upper (1) half of a vector's lanes.
template <class T, int N, int Which>
inline vecn<T, N / 2> half(vecn<T, N> value) {
    return half_of<T, N, Which>(value, std::make_integer_sequence<int, N / 2>());
}

template <class T, int N>
inline T sum_pack(vecn<T, N> value) {
    if constexpr (N == 1) {
        return value[0];
    } else {
        return sum_pack<T, N / 2>(half<T, N, 0>(value) + half<T, N, 1>(value));
    }
}

template <class T>
inline T sum(vec<T> value) {
    return sum_pack<T, lanes<T>>(value);
}

// Inner product of two rows.
template <class T>
inline T inner(const T* a, const T* b, int64_t width) {
    constexpr int64_t step = 4 * lanes<T>;
    vec<T> acc[4] = {};
    int64_t c = 0;
    for (; c + step <= width; c += step)
        for (int v = 0; v < 4; ++v) acc[v] += load(a + c + v * lanes<T>) * load(b + c + v * lanes<T>);
    for (; c + lanes<T> <= width; c += lanes<T>) acc[0] += load(a + c) * load(b + c);
    T total = sum<T>((acc[0] + acc[1]) + (acc[2] + acc[3]));
    for (; c < width; ++c) total += a[c] * b[c];
    return total;
}

// Column of the v-th vector of a row whose number of vectors is known only when running; see `column`.
template <class T>
inline int64_t offset(int64_t v, int64_t width) {
    const int64_t start = v * lanes<T>;
    return start + lanes<T> <= width ? start : width - lanes<T>;
}

// Column of the v-th of V vectors of N lanes that cover `width` columns: the last is moved back to end with them, so no
// tail is left. Where it overlaps the one before, both compute the same values; all are loaded before any is stored.
template <int N, int V>
inline int64_t column(int v, int64_t width) {
    return v < V - 1 ? int64_t(v) * N : width - N;
}

// The columns of one row that are computed together.
struct Columns {
    int64_t first, width;
};

// How a width is cut: groups of at most Most vectors, equal to within one, so none is narrower than a vector.
template <class T, int Most = kGroup>
struct Cut {
    int64_t width, vectors, groups;

    explicit Cut(int64_t width_)
        : width(width_), vectors((width + lanes<T> - 1) / lanes<T>), groups((vectors + Most - 1) / Most) {}

    Columns group(int64_t g) const {
        const int64_t first = g * vectors / groups * lanes<T>, last = (g + 1) * vectors / groups * lanes<T>;
        return {first, (last < width ? last : width) - first};
    }
};

}  // namespace kernels
