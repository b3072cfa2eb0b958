// Attention scores of a layer's output, computed while its rows are in cache: score[row, h] = y[row, h] . att[h].
#pragma once
#include "common/partials.hpp"
#include "common/vector.hpp"

namespace kernels {

// Nothing where heads = 0. Each att [heads, width] belongs to the score of an edge's source or destination.
template <class T>
struct Scores {
    int64_t heads, width;
    const T* att[2];
    T* score[2];             // [rows, heads]
    const T* grad_score[2];  // [rows, heads]
    T* grad_att[2];          // [heads, width]
    T* partial;              // scratch of 2 * heads * width for each partial sum
};

template <class T>
void score_rows(const Scores<T>& s, const T* y, int64_t begin, int64_t end) {
    constexpr int64_t L = lanes<T>;
    for (int64_t at = begin * s.heads; at < end * s.heads; ++at) {
        const T *row = y + at * s.width, *src = s.att[0] + at % s.heads * s.width, *dst = s.att[1] + at % s.heads * s.width;
        vec<T> sums[2] = {};
        int64_t c = 0;
        for (; c + L <= s.width; c += L) {
            const vec<T> value = load<T>(row + c);
            sums[0] += value * load<T>(src + c);
            sums[1] += value * load<T>(dst + c);
        }
        T total[2] = {};
        for (int64_t i = 0; i < L; ++i) total[0] += sums[0][i], total[1] += sums[1][i];
        for (; c < s.width; ++c) total[0] += row[c] * src[c], total[1] += row[c] * dst[c];
        s.score[0][at] = total[0], s.score[1][at] = total[1];
    }
}

// One row: adds the scores' part to the gradient of y, and to the sums [2, heads, width] of the attention vectors.
template <class T>
inline void add_score_gradients(const Scores<T>& s, int64_t row, const T* __restrict y, T* __restrict to,
                                T* __restrict src_sum) {
    T* __restrict dst_sum = src_sum + s.heads * s.width;
    for (int64_t h = 0; h < s.heads; ++h) {
        const T src = s.grad_score[0][row * s.heads + h], dst = s.grad_score[1][row * s.heads + h];
        for (int64_t c = h * s.width; c < (h + 1) * s.width; ++c) {
            to[c] += src * s.att[0][c] + dst * s.att[1][c];
            src_sum[c] += src * y[c];
            dst_sum[c] += dst * y[c];
        }
    }
}

}  // namespace kernels
