// Dense layers over tall matrices: y = dropout(relu(x w + b)) for one or two inputs, and all gradients in one pass over
// the rows.
//
// Written for few columns (tens to hundreds): the weight stays in cache, packed, while rows stream by.
#pragma once
#include <omp.h>

#include <algorithm>
#include <numeric>

#include "common/mask.hpp"
#include "dense/attention_scores.hpp"

namespace kernels {

template <class T>
constexpr int64_t panel_width = 2 * lanes<T>;  // columns of a tile: two vectors
constexpr int tile_rows = kVectorBytes == 64 ? 12 : 6;  // as many as 32 or 16 registers hold
constexpr int64_t kPartialBytes = 64ll << 20;  // of the weights' partial sums, unless the fewest take more
constexpr int64_t kFewestPartials = 4;
constexpr int64_t kSmallSum = 1 << 15;  // entries of weights or of their partial sums that are not worth a second thread
constexpr int64_t kSliceDepth = 48;     // of an input in a task of the backward pass, at least

template <class T>
constexpr int64_t panels(int64_t columns) {
    return (columns + panel_width<T> - 1) / panel_width<T>;
}

// One input of a dense layer: x [rows, depth] times w [depth, columns].
template <class T>
struct DenseInput {
    const T* x;
    const T* w;
    int64_t depth;
    T* grad_x;       // [rows, depth], or null to skip it
    T* grad_w;       // [depth, columns]
    T* packed;       // scratch of packed_size
    T* partial;      // scratch of depth * padded columns for each partial sum
};

template <class T>
struct DenseTask {
    int64_t rows, columns;
    int64_t chunk, chunks;  // rows of a partial sum of the backward pass, and how many sums there are
    int inputs;  // 1 or 2
    DenseInput<T> input[2];
    const T* bias;   // [columns] or null
    bool relu;
    const Dropout<T>* dropout;  // after a ReLU, or null
    T grad_scale;    // of the gradient where y is not zero
    T* y;            // [rows, columns]
    const T* grad_y; // [rows, columns]
    T* grad_bias;    // [columns] or null
    Scores<T> scores;
    T* bias_partial; // scratch of padded columns for each partial sum
};

// Columns filled up to whole panels.
template <class T>
int64_t padded(int64_t columns) {
    return panels<T>(columns) * panel_width<T>;
}

// Partial sums of weights [depth, columns] at most, by their size alone, so that threads change no result.
template <class T>
int64_t most_partials(int64_t depth, int64_t columns) {
    return std::clamp(kPartialBytes / (depth * padded<T>(columns) * int64_t(sizeof(T))), kFewestPartials, kPartials);
}

// Lay out w [depth, columns] (or its transpose) as panels [panel][depth][panel_width], zeros beyond the last column.
template <class T, bool Transposed>
void pack(const T* w, int64_t depth, int64_t columns, T* to, int threads) {
    constexpr int64_t P = panel_width<T>;
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static) if (depth * columns > kSmallSum)
    for (int64_t first = 0; first < columns; first += P)
        for (int64_t k = 0; k < depth; ++k) {
            T* row = to + first * depth + k * P;
            for (int64_t c = first; c < first + P; ++c)
                *row++ = c >= columns ? T(0) : Transposed ? w[c * depth + k] : w[k * columns + c];
        }
}

// acc [R][V vectors] += x [R, depth] times the first V vectors of a packed panel.
template <class T, int R, int V>
inline void multiply_tile(const T* x, int64_t stride, const T* panel, int64_t depth, vec<T> (&acc)[R][V]) {
    constexpr int64_t P = panel_width<T>;
    const T* base[(R + 3) / 4];
    for (int r = 0; r < R; r += 4) base[r / 4] = x + r * stride;
    for (int64_t k = 0; k < depth; ++k, panel += P) {
        vec<T> part[V];
        for (int v = 0; v < V; ++v) part[v] = load<T>(panel + v * P / 2);
        for (int r = 0; r < R; ++r) {
            const vec<T> a = base[r / 4][(r % 4) * stride + k] - vec<T>{};
            for (int v = 0; v < V; ++v) acc[r][v] += a * part[v];
        }
    }
}

// Store the first `count` columns of a tile's row.
template <class T, int V>
inline void store_row(T* to, const vec<T> (&row)[V], int64_t count) {
    constexpr int64_t L = lanes<T>;
    T whole[V * L];
    T* const at = count >= V * L ? to : whole;
    for (int v = 0; v < V; ++v) store<T>(at + v * L, row[v]);
    if (at == whole) std::memcpy(to, whole, count * sizeof(T));
}

// V = 1 where one vector covers the panel's columns: narrow layers of wide inputs are bound by what they multiply.
template <class T, int R, int V>
inline void forward_tile(const DenseTask<T>& t, int64_t row, int64_t panel) {
    constexpr int64_t P = panel_width<T>;
    const int64_t first = panel * P, left = t.columns - first;
    vec<T> acc[R][V] = {};
    if (t.bias != nullptr) {
        T bias[P] = {};
        std::memcpy(bias, t.bias + first, (left < P ? left : P) * sizeof(T));
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < V; ++v) acc[r][v] = load<T>(bias + v * P / 2);
    }
    for (int i = 0; i < t.inputs; ++i) {
        const DenseInput<T>& in = t.input[i];
        multiply_tile<T, R, V>(in.x + row * in.depth, in.depth, in.packed + first * in.depth, in.depth, acc);
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
        if (t.relu)
            for (int v = 0; v < V; ++v) acc[r][v] = acc[r][v] < vec<T>{} ? vec<T>{} : acc[r][v];  // NaN stays
        if (t.dropout != nullptr) {
            const RowDropout<T> drop(t.dropout, row + r);
            for (int v = 0; v < V; ++v) acc[r][v] = drop(acc[r][v], first + v * P / 2);
        }
        store_row<T, V>(t.y + (row + r) * t.columns + first, acc[r], left);
    }
}

// Call `tile.operator()<R>(row)` on as many full tiles of rows as fit, then on one for each of the rest's binary parts.
template <int R, class Tile>
inline void each_tile(int64_t begin, int64_t end, Tile tile) {
    for (; begin + R <= end; begin += R) tile.template operator()<R>(begin);
    if constexpr (R > 1)
        if (begin < end) each_tile<(R > 6 ? 6 : R > 4 ? 4 : R > 2 ? 2 : 1)>(begin, end, tile);
}

// Blocks of rows that a thread takes at a time: few of few blocks, so that all threads have some.
inline int64_t blocks_of_a_task(int64_t blocks, int threads) {
    return std::clamp<int64_t>(blocks / (4 * threads), 1, 8);
}

template <class T>
void dense_forward(const DenseTask<T>& t, int threads) {
    for (int i = 0; i < t.inputs; ++i)
        pack<T, false>(t.input[i].w, t.input[i].depth, t.columns, t.input[i].packed, threads);
    const int64_t blocks = (t.rows + kRowBlock - 1) / kRowBlock;
    const int64_t share = blocks_of_a_task(blocks, threads);
#pragma omp parallel for num_threads(threads) schedule(dynamic, share)
    for (int64_t block = 0; block < blocks; ++block) {
        const int64_t begin = block * kRowBlock, end = begin + kRowBlock < t.rows ? begin + kRowBlock : t.rows;
        for (int64_t panel = 0; panel < panels<T>(t.columns); ++panel)
            each_tile<tile_rows>(begin, end, [&]<int R>(int64_t row) {
                const bool narrow = t.columns - panel * panel_width<T> <= lanes<T>;
                narrow ? forward_tile<T, R, 1>(t, row, panel) : forward_tile<T, R, 2>(t, row, panel);
            });
        if (t.scores.heads > 0) score_rows<T>(t.scores, t.y, begin, end);
    }
}

// The gradient before the activation of one row, padded with zeros to whole panels. What dropout or the ReLU made zero
// has none.
template <class T>
inline void gradient_row(const T* __restrict grad, const T* __restrict y, bool relu, T scale, int64_t columns,
                         int64_t pitch, T* __restrict to) {
    if (relu)
        for (int64_t c = 0; c < columns; ++c) to[c] = y[c] <= 0 ? T(0) : grad[c] * scale;
    else
        std::memcpy(to, grad, columns * sizeof(T));
    for (int64_t c = columns; c < pitch; ++c) to[c] = T(0);
}

template <class T>
inline void gradient_block(const DenseTask<T>& t, int64_t begin, int64_t end, int64_t pitch, T* __restrict to,
                           T* __restrict bias_sum, T* score_sum) {
    for (int64_t row = begin; row < end; ++row, to += pitch) {
        const T *grad_y = t.grad_y + row * t.columns, *y = t.y + row * t.columns;
        gradient_row(grad_y, y, t.relu, t.grad_scale, t.columns, pitch, to);
        if (t.scores.heads > 0) add_score_gradients(t.scores, row, y, to, score_sum);
        for (int64_t c = 0; c < pitch; ++c) bias_sum[c] += to[c];
    }
}

// grad_w[k .. k + R, panel] += x[rows, k .. k + R]^T gradient[rows, panel]
template <class T, int R>
inline void outer_tile(const T* x, int64_t depth, const T* gradient, int64_t pitch, int64_t rows, T* to) {
    constexpr int64_t P = panel_width<T>;
    vec<T> acc[R][2];
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < 2; ++v) acc[r][v] = load<T>(to + r * pitch + v * P / 2);
    for (int64_t row = 0; row < rows; ++row, x += depth, gradient += pitch) {
        const vec<T> low = load<T>(gradient), high = load<T>(gradient + P / 2);
        for (int r = 0; r < R; ++r) {
            const vec<T> a = x[r] - vec<T>{};
            acc[r][0] += a * low;
            acc[r][1] += a * high;
        }
    }
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < 2; ++v) store<T>(to + r * pitch + v * P / 2, acc[r][v]);
}

template <class T, int R>
inline void input_tile(const DenseInput<T>& in, int64_t row, const T* gradient, int64_t pitch, int64_t columns,
                       int64_t panel) {
    constexpr int64_t P = panel_width<T>;
    vec<T> acc[R][2] = {};
    multiply_tile<T, R, 2>(gradient, pitch, in.packed + panel * P * columns, columns, acc);
    for (int r = 0; r < R; ++r)
        store_row<T, 2>(in.grad_x + (row + r) * in.depth + panel * P, acc[r], in.depth - panel * P);
}

// A share of an input's depth: of the columns of its gradient, and of the rows of its weight's.
struct Slice {
    int64_t number, count;

    int64_t begin(int64_t total) const { return number * total / count; }
    int64_t end(int64_t total) const { return (number + 1) * total / count; }
    // Whole tiles of the weight's rows, so that slices change no sum.
    static int64_t tiles(int64_t depth) { return (depth + tile_rows - 1) / tile_rows; }
    int64_t first_row(int64_t depth) const { return begin(tiles(depth)) * tile_rows; }
    int64_t last_row(int64_t depth) const { return std::min(end(tiles(depth)) * tile_rows, depth); }
};

// Into how many slices of the inputs' depth each chunk of rows is cut: few chunks that threads cannot share evenly leave
// some without work.
inline int64_t depth_slices(int64_t chunks, int64_t depth, int threads) {
    const int64_t wanted = (2 * threads + chunks - 1) / chunks, even = threads / std::gcd<int64_t>(chunks, threads);
    return std::min({wanted, even, std::max<int64_t>(depth / kSliceDepth, 1)});
}

// Both gradients of a slice of one input from the gradient [rows, pitch] of rows [begin, end).
template <class T>
inline void backward_input(const DenseTask<T>& t, const DenseInput<T>& in, const Slice& slice, int64_t begin,
                           int64_t end, const T* gradient, int64_t pitch, T* partial) {
    const int64_t all = in.grad_x == nullptr ? 0 : panels<T>(in.depth);
    for (int64_t panel = slice.begin(all); panel < slice.end(all); ++panel)
        each_tile<tile_rows>(begin, end, [&]<int R>(int64_t row) {
            input_tile<T, R>(in, row, gradient + (row - begin) * pitch, pitch, t.columns, panel);
        });
    for (int64_t first = 0; first < pitch; first += panel_width<T>)
        each_tile<tile_rows>(slice.first_row(in.depth), slice.last_row(in.depth), [&]<int R>(int64_t k) {
            outer_tile<T, R>(in.x + begin * in.depth + k, in.depth, gradient + first, pitch, end - begin,
                                partial + k * pitch + first);
        });
}

// Memory of a thread: the gradient of a block of rows, and sums that are thrown away.
template <class T>
int64_t scratch_size(const DenseTask<T>& t) {
    return (kRowBlock + 1) * padded<T>(t.columns) + padded<T>(2 * t.scores.heads * t.scores.width);
}

// A slice of the gradients of a chunk of rows. Each slice computes the gradient before the activation again; the first
// keeps what it adds to the bias's and the attention vectors'.
template <class T>
void backward_slice(const DenseTask<T>& t, int64_t chunk, const Slice& slice, T* scratch) {
    const int64_t pitch = padded<T>(t.columns), scores = 2 * t.scores.heads * t.scores.width;
    const int64_t first = chunk * t.chunk, last = std::min(first + t.chunk, t.rows);
    T *gradient = scratch, *spare = scratch + kRowBlock * pitch;
    T* bias_sum = slice.number == 0 ? t.bias_partial + chunk * pitch : spare;
    T* score_sum = slice.number == 0 ? t.scores.partial + chunk * scores : spare + pitch;
    std::memset(bias_sum, 0, pitch * sizeof(T));
    std::memset(score_sum, 0, scores * sizeof(T));
    const auto partial = [&](int i) { return t.input[i].partial + chunk * t.input[i].depth * pitch; };
    for (int i = 0; i < t.inputs; ++i) {
        const int64_t depth = t.input[i].depth, row = slice.first_row(depth);
        std::memset(partial(i) + row * pitch, 0, (slice.last_row(depth) - row) * pitch * sizeof(T));
    }
    for (int64_t begin = first; begin < last; begin += kRowBlock) {
        const int64_t end = std::min(begin + kRowBlock, last);
        gradient_block(t, begin, end, pitch, gradient, bias_sum, score_sum);
        for (int i = 0; i < t.inputs; ++i)
            backward_input<T>(t, t.input[i], slice, begin, end, gradient, pitch, partial(i));
    }
}

template <class T>
void add_weight_partials(const DenseTask<T>& t, const DenseInput<T>& in, int64_t pitch, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (t.chunks * in.depth * t.columns > kSmallSum)
    for (int64_t k = 0; k < in.depth; ++k)
        add_partials(in.partial + k * pitch, t.chunks, in.depth * pitch, t.columns, in.grad_w + k * t.columns);
}

// `scratch` holds scratch_size for each thread.
template <class T>
void dense_backward(const DenseTask<T>& t, T* scratch, int threads) {
    const int64_t chunks = t.chunks, pitch = padded<T>(t.columns);
    for (int i = 0; i < t.inputs; ++i)
        if (t.input[i].grad_x != nullptr)
            pack<T, true>(t.input[i].w, t.columns, t.input[i].depth, t.input[i].packed, threads);
    const int64_t slices = depth_slices(chunks, std::max(t.input[0].depth, t.input[1].depth), threads);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t task = 0; task < chunks * slices; ++task)
        backward_slice<T>(t, task / slices, Slice{task % slices, slices},
                          scratch + omp_get_thread_num() * scratch_size(t));
    for (int i = 0; i < t.inputs; ++i) add_weight_partials(t, t.input[i], pitch, threads);
    if (t.grad_bias != nullptr) add_partials(t.bias_partial, chunks, pitch, t.columns, t.grad_bias);
    const int64_t size = t.scores.heads * t.scores.width;
    for (int side = 0; side < 2 && size > 0; ++side)
        add_partials(t.scores.partial + side * size, chunks, 2 * size, size, t.scores.grad_att[side]);
}

}  // namespace kernels
