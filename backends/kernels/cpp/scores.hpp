// Vectors over scores [edges, heads] that lie edge by edge: which head a lane belongs to repeats after some vectors.
#pragma once
#include <type_traits>
#include <vector>

#include "exponential.hpp"

namespace kernels {

// H heads (0: any number) take turns over the lanes; after `slots` vectors the turns begin again.
template <class T, int H>
class Turns {
  public:
    static constexpr bool constant = H > 0 && lanes<T> % (H > 0 ? H : 1) == 0;

    explicit Turns(int64_t heads_) : heads(H == 0 ? heads_ : H), slots(constant ? 1 : heads) {}

    // One value per head, laid out for the vectors of each slot.
    void spread(const T* per_head, vec<T>* laid) const {
        if constexpr (H == 1) {
            laid[0] = broadcast(per_head[0]);
        } else {
            T* flat = reinterpret_cast<T*>(laid);
            for (int64_t turn = 0; turn < slots * lanes<T>; turn += heads)
                for (int64_t h = 0; h < heads; ++h) flat[turn + h] = per_head[h];
        }
    }

    // Combine the lanes of all slots head by head, always in the same order.
    template <class Combine>
    void fold(const vec<T>* laid, T* per_head, Combine combine) const {
        if constexpr (constant) {
            const auto folded = halve<lanes<T>>(laid[0], combine);
            for (int64_t h = 0; h < heads; ++h) per_head[h] = combine(per_head[h], folded[h]);
        } else {
            const T* flat = reinterpret_cast<const T*>(laid);
            for (int64_t turn = 0; turn < slots * lanes<T>; turn += heads)
                for (int64_t h = 0; h < heads; ++h) per_head[h] = combine(per_head[h], flat[turn + h]);
        }
    }

    // Call step(at, slot) for every vector of `count` values.
    template <class Step>
    void each(int64_t count, Step step) const {
        for (int64_t at = 0, slot = 0; at < count; at += lanes<T>) {
            step(at, slot);
            if (!constant) slot = slot + 1 == slots ? 0 : slot + 1;
        }
    }

    const int64_t heads, slots;

  private:
    template <int N, class Combine>
    static auto halve(vecn<T, N> value, Combine combine) {
        if constexpr (N == H) {
            return value;
        } else {
            vecn<T, N / 2> low, high;
            std::memcpy(&low, &value, sizeof low);
            std::memcpy(&high, reinterpret_cast<const char*>(&value) + sizeof low, sizeof high);
            return halve<N / 2>(combine(low, high), combine);
        }
    }
};

// Fill the lanes beyond `count`, so that none holds what was there before; buffers end with a vector to spare.
template <class T>
inline void pad(T* values, int64_t count, T with) {
    store(values + count, broadcast(with));
}

template <class T>
inline vec<T> leaky(vec<T> raw, T slope) {
    return raw > vec<T>{} ? raw : raw * slope;
}

// Leave in the first lane of each of S segments the sum of its lanes.
template <class T, int N, int S>
inline void fold_segments(vecn<T, N>& value) {
    using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
#pragma GCC unroll 8
    for (int step = N / S / 2; step > 0; step /= 2) {
        vecn<Index, N> from;
        for (int lane = 0; lane < N; ++lane) from[lane] = Index((lane + step) % N);
        value += __builtin_shuffle(value, from);
    }
}

// Shuffles that join two vectors of S sums in progress each, L lanes of one after another, into one of 2S.
template <class T, int N, int S, int Half>
inline vecn<T, N> halves(vecn<T, N> a, vecn<T, N> b) {
    using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    constexpr int length = N / S;
    vecn<Index, N> from;
    for (int segment = 0; segment < 2 * S; ++segment)
        for (int lane = 0; lane < length / 2; ++lane)
            from[segment * (length / 2) + lane] = Index(segment * length + Half * (length / 2) + lane);
    return __builtin_shuffle(a, b, from);
}

// to[k] += the sum of all lanes of values[k], for every k; a power of two of them is summed together.
template <class T, int N, int K, int S = 1>
inline void add_sums(const vecn<T, N> (&values)[K], T* to) {
    if constexpr (K > 1 && K % 2 == 0 && S < N) {
        vecn<T, N> joined[K / 2];
        for (int k = 0; k < K / 2; ++k)
            joined[k] = halves<T, N, S, 0>(values[2 * k], values[2 * k + 1]) +
                        halves<T, N, S, 1>(values[2 * k], values[2 * k + 1]);
        add_sums<T, N, K / 2, 2 * S>(joined, to);
    } else {
        for (int k = 0; k < K; ++k) {
            if constexpr (S == 1) {
                to[k] += sum_pack<T, N>(values[k]);
            } else {
                vecn<T, N> rest = values[k];
                fold_segments<T, N, S>(rest);
                for (int s = 0; s < S; ++s) to[k * S + s] += rest[s * (N / S)];
            }
        }
    }
}

// An aligned buffer of vectors.
template <class T>
using LaneBuffer = std::vector<vec<T>>;

}  // namespace kernels
