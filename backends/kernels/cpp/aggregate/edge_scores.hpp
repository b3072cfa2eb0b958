// Vector operations on scores [edges, heads], stored edge by edge: the heads of a vector's lanes repeat with a period.
#pragma once
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/exponential.hpp"

namespace kernels {

// Consecutive rows, or a piece of one, whose edges are in cache together.
template <class I>
struct Rows {
    const I* starts;  // [count + 1]
    int64_t first, count;

    int64_t edge(int64_t r) const { return int64_t(starts[r]) - int64_t(starts[0]); }
    int64_t degree(int64_t r) const { return int64_t(starts[r + 1]) - int64_t(starts[r]); }
    int64_t edges() const { return edge(count); }
};

// The first `count` lanes of a vector, `others` in the rest.
template <class T>
inline vec<T> first_lanes(vec<T> value, int64_t count, T others) {
    typename BitsOf<T>::type number;
    for (int lane = 0; lane < lanes<T>; ++lane) number[lane] = lane;
    return number < typename BitsOf<T>::scalar(count) ? value : broadcast(others);
}

// An aligned buffer of vectors.
template <class T>
using LaneBuffer = std::vector<vec<T>>;

// A number of heads: H, known when compiling, or any where H is 0.
template <int H>
struct Heads {
    int64_t count;
    constexpr operator int64_t() const { return H == 0 ? count : H; }
};

// Call `call.operator()<H>()` with H = heads where code is compiled for that many, with 0 elsewhere.
template <class Call>
void with_heads(int64_t heads, const Call& call) {
    switch (heads) {
        case 1: return call.template operator()<1>();
        case 4: return call.template operator()<4>();
        case 8: return call.template operator()<8>();
        default: return call.template operator()<0>();
    }
}

// Copy one number per head, at once where their number is known: H, or `heads` where that is 0.
template <class T, int H>
inline void copy_heads(const T* from, int64_t heads, T* to) {
    if constexpr (H > 0)
        store_pack<H>(to, load_pack<H>(from));
    else
        std::copy_n(from, heads, to);
}

// H heads (0: any number) take turns over the lanes; after `slots` vectors the turns begin again.
template <class T, int H>
class Turns {
  public:
    static constexpr bool constant = H > 0 && lanes<T> % (H > 0 ? H : 1) == 0;

    explicit Turns(int64_t heads_) : heads{heads_}, slots(constant ? 1 : heads_) {}

    // A vector for each slot: a register where there is one slot, else the buffer.
    decltype(auto) laid(LaneBuffer<T>& buffer) const {
        if constexpr (constant) {
            return std::array<vec<T>, 1>{};
        } else {
            return (buffer);
        }
    }

    // One value per head, laid out for the vectors of each slot.
    void spread(const T* per_head, vec<T>* laid) const {
        if constexpr (H == 1) {
            laid[0] = broadcast(per_head[0]);
        } else if constexpr (constant) {
            laid[0] = repeat(load_pack<H>(per_head), std::make_integer_sequence<int, lanes<T>>());
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

    // Call step(vector, at, slot) for the vectors of `count` values; the last may reach beyond them.
    template <class Step>
    void each(const T* values, int64_t count, Step step) const {
        for (int64_t at = 0, slot = 0; at < count; at += lanes<T>) {
            step(load(values + at), at, slot);
            if (!constant) slot = slot + 1 == slots ? 0 : slot + 1;
        }
    }

    // The same with `others` in the place of what lies beyond.
    template <class Step>
    void each(const T* values, int64_t count, T others, Step step) const {
        each(values, count, [&](vec<T> value, int64_t at, int64_t slot) {
            step(at + lanes<T> <= count ? value : first_lanes<T>(value, count - at, others), at, slot);
        });
    }

    // to [rows, heads] (+)= sum over each row's edges of values [edges, heads].
    template <class I>
    void sum_rows(const Rows<I>& rows, const T* values, LaneBuffer<T>& buffer, T* to, bool fresh) const {
        sum_rows(rows, buffer, to, fresh, [](int64_t) {}, [&](int64_t at, int64_t) { return load(values + at); });
    }

    // The same of value(at, slot) for the vectors of scores from `at` on, after start(row) for each row.
    template <class I, class Start, class Value>
    void sum_rows(const Rows<I>& rows, LaneBuffer<T>& buffer, T* to, bool fresh, Start start, Value value) const {
        auto&& sums = laid(buffer);
        if (fresh) std::fill_n(to, rows.count * heads, T(0));
        for (int64_t r = 0; r < rows.count; ++r) {
            std::fill_n(sums.begin(), slots, vec<T>{});
            start(r);
            const int64_t first = rows.edge(r) * heads, count = rows.degree(r) * heads;
            for (int64_t at = 0, slot = 0; at < count; at += lanes<T>) {
                const vec<T> part = value(first + at, slot);
                sums[slot] += at + lanes<T> <= count ? part : first_lanes<T>(part, count - at, T(0));
                if (!constant) slot = slot + 1 == slots ? 0 : slot + 1;
            }
            fold(sums.data(), to + r * heads, [](auto a, auto b) { return a + b; });
        }
    }

    const Heads<H> heads;
    const int64_t slots;

  private:
    template <class Pack, int... Lane>
    static vec<T> repeat(Pack value, std::integer_sequence<int, Lane...>) {
        return __builtin_shufflevector(value, value, (Lane % H)...);
    }

    template <int N, class Combine>
    static auto halve(vecn<T, N> value, Combine combine) {
        if constexpr (N == H) {
            return value;
        } else {
            return halve<N / 2>(combine(half<T, N, 0>(value), half<T, N, 1>(value)), combine);
        }
    }
};

template <class T>
inline vec<T> leaky(vec<T> raw, T slope) {
    return raw > vec<T>{} ? raw : raw * slope;
}

template <class T>
inline T leaky(T raw, T slope) {
    return raw > 0 ? raw : raw * slope;
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

// Join two vectors of S sums in progress each into one of 2S, one's and the other's in turns: half of the lanes stay
// where they are, so that only the other half is shuffled.
template <class T, int N, int S>
inline vecn<T, N> join(vecn<T, N> a, vecn<T, N> b) {
    using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    constexpr int length = N / S;
    vecn<Index, N> stay, move;
    for (int lane = 0; lane < N; ++lane) {
        const bool first = lane % length < length / 2;
        stay[lane] = Index(first ? lane : N + lane);
        move[lane] = Index(first ? lane + length / 2 : N + lane - length / 2);
    }
    return __builtin_shuffle(a, b, stay) + __builtin_shuffle(a, b, move);
}

// to[k] += the sum of all lanes of values[k], for every k; a power of two of them is summed together.
template <class T, int N, int K, int S = 1>
inline void add_sums(const vecn<T, N> (&values)[K], T* to) {
    if constexpr (K > 1 && K % 2 == 0 && S < N) {
        vecn<T, N> joined[K / 2];
        for (int k = 0; k < K / 2; ++k) joined[k] = join<T, N, S>(values[k], values[k + K / 2]);
        add_sums<T, N, K / 2, 2 * S>(joined, to);
    } else {
        for (int k = 0; k < K; ++k) {
            if constexpr (S == N && K == 1) {
                store_pack<N>(to, load_pack<N>(to) + values[0]);
            } else if constexpr (S == 1) {
                to[k] += sum_pack<T, N>(values[k]);
            } else {
                vecn<T, N> rest = values[k];
                fold_segments<T, N, S>(rest);
                for (int s = 0; s < S; ++s) to[s * K + k] += rest[s * (N / S)];
            }
        }
    }
}

// Sums of the lanes of K vectors per edge, added to K of every `stride` numbers; most are cheaper N at a time.
template <class T, int N, int K>
class LaneSums {
  public:
    LaneSums(T* to_, int64_t stride_) : to(to_), stride(stride_) {}

    void add(const vecn<T, N> (&values)[K]) {
        if constexpr (N > K && N % K == 0) {
            for (int k = 0; k < K; ++k) pending[waiting + k] = values[k];
            waiting += K;
            if (waiting == N) flush();
        } else {
            add_sums<T, N, K>(values, to);
            to += stride;
        }
    }

    void finish() {
        if (waiting == 0) return;
        for (int i = waiting; i < N; ++i) pending[i] = vecn<T, N>{};
        flush();
    }

  private:
    void flush() {
        if (stride == K) {
            add_sums<T, N, N>(pending, to);  // may add zeros to up to N numbers beyond
        } else {
            T sums[N] = {};
            add_sums<T, N, N>(pending, sums);
            for (int i = 0; i < waiting; ++i) to[i / K * stride + i % K] += sums[i];
        }
        to += N / K * stride;
        waiting = 0;
    }

    T* to;
    const int64_t stride;
    vecn<T, N> pending[N];
    int waiting = 0;
};

}  // namespace kernels
