// Dense layers of few outputs: vectors run along the inputs, as the outputs would fill a small part of one.
#pragma once
#include "common/dispatch.hpp"
#include "dense/dense.hpp"

namespace kernels {

template <class T>
constexpr int most_outputs = lanes<T> / 2;

// Whether a layer of one input without activation is thin.
template <class T>
bool is_thin(const DenseTask<T>& t) {
    return t.inputs == 1 && t.scores.heads == 0 && !t.relu && t.dropout == nullptr && t.columns > 0 &&
           t.columns <= most_outputs<T> && t.input[0].depth >= lanes<T>;
}

// Lay out w [depth, columns] as its transpose.
template <class T>
void turn(const DenseInput<T>& in, int64_t columns) {
    for (int64_t c = 0; c < columns; ++c)
        for (int64_t k = 0; k < in.depth; ++k) in.packed[c * in.depth + k] = in.w[k * columns + c];
}

// The C outputs of one row; `turned` is the transposed weight.
template <class T, int C>
inline void thin_row(const T* x, const T* turned, int64_t depth, const T* bias, T* y) {
    vec<T> acc[C] = {};
    int64_t k = 0;
    for (; k + lanes<T> <= depth; k += lanes<T>) {
        const vec<T> value = load(x + k);
        for (int c = 0; c < C; ++c) acc[c] += value * load(turned + c * depth + k);
    }
    for (int c = 0; c < C; ++c) {
        T total = sum<T>(acc[c]);
        for (int64_t rest = k; rest < depth; ++rest) total += x[rest] * turned[c * depth + rest];
        y[c] = bias == nullptr ? total : total + bias[c];
    }
}

template <class T>
void thin_forward(const DenseTask<T>& t, int threads) {
    const DenseInput<T>& in = t.input[0];
    turn(in, t.columns);
    with_vectors<most_outputs<T>>(t.columns, [&]<int C>() {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t row = 0; row < t.rows; ++row)
            thin_row<T, C>(in.x + row * in.depth, in.packed, in.depth, t.bias, t.y + row * C);
    });
}

// sums [C, depth] += the products of rows [begin, end), their gradients and V vectors of the inputs from k on.
template <class T, int C, int V>
inline void thin_sums(const DenseTask<T>& t, int64_t begin, int64_t end, int64_t k, T* sums) {
    const int64_t depth = t.input[0].depth;
    const T *x = t.input[0].x + begin * depth + k, *grad = t.grad_y + begin * C;
    vec<T> acc[C][V];
    for (int c = 0; c < C; ++c)
        for (int v = 0; v < V; ++v) acc[c][v] = load(sums + c * depth + k + v * lanes<T>);
    for (int64_t row = begin; row < end; ++row, x += depth, grad += C)
        for (int v = 0; v < V; ++v) {
            const vec<T> value = load(x + v * lanes<T>);
            for (int c = 0; c < C; ++c) acc[c][v] += value * broadcast(grad[c]);
        }
    for (int c = 0; c < C; ++c)
        for (int v = 0; v < V; ++v) store(sums + c * depth + k + v * lanes<T>, acc[c][v]);
}

// Columns [first, last) of the input's gradient of rows [begin, end).
template <class T, int C>
inline void thin_input(const DenseTask<T>& t, int64_t begin, int64_t end, int64_t first, int64_t last) {
    const DenseInput<T>& in = t.input[0];
    for (int64_t row = begin; row < end; ++row) {
        const T* grad = t.grad_y + row * C;
        T* to = in.grad_x + row * in.depth;
        int64_t k = first;
        for (; k + lanes<T> <= last; k += lanes<T>) {
            vec<T> value = {};
            for (int c = 0; c < C; ++c) value += broadcast(grad[c]) * load(in.packed + c * in.depth + k);
            store(to + k, value);
        }
        for (; k < last; ++k) {
            to[k] = T(0);
            for (int c = 0; c < C; ++c) to[k] += grad[c] * in.packed[c * in.depth + k];
        }
    }
}

// Inputs [first, last) of the gradients of a chunk of rows; the first slice also sums the bias's.
template <class T, int C>
void thin_slice(const DenseTask<T>& t, int64_t chunk, int64_t first, int64_t last) {
    const DenseInput<T>& in = t.input[0];
    const int64_t pitch = padded<T>(t.columns), from = chunk * t.chunk, to = std::min(from + t.chunk, t.rows);
    T *sums = in.partial + chunk * in.depth * pitch, *bias = t.bias_partial + chunk * pitch;
    for (int c = 0; c < C; ++c) std::fill(sums + c * in.depth + first, sums + c * in.depth + last, T(0));
    if (first == 0) std::fill_n(bias, C, T(0));
    for (int64_t begin = from; begin < to; begin += kRowBlock) {
        const int64_t end = std::min(begin + kRowBlock, to);
        int64_t k = first;
        for (; k + 2 * lanes<T> <= last; k += 2 * lanes<T>) thin_sums<T, C, 2>(t, begin, end, k, sums);
        for (; k + lanes<T> <= last; k += lanes<T>) thin_sums<T, C, 1>(t, begin, end, k, sums);
        for (int64_t row = begin; row < end; ++row)
            for (int c = 0; c < C; ++c) {
                const T grad = t.grad_y[row * C + c];
                if (first == 0) bias[c] += grad;
                for (int64_t rest = k; rest < last; ++rest)
                    sums[c * in.depth + rest] += in.x[row * in.depth + rest] * grad;
            }
        if (in.grad_x != nullptr) thin_input<T, C>(t, begin, end, first, last);
    }
}

template <class T, int C>
void thin_gradients(const DenseTask<T>& t, int threads) {
    const DenseInput<T>& in = t.input[0];
    const int64_t pitch = padded<T>(t.columns), slices = depth_slices(t.chunks, in.depth, threads);
    const auto cut = [&](int64_t slice) {
        return slice == slices ? in.depth : in.depth / lanes<T> * slice / slices * lanes<T>;
    };
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t task = 0; task < t.chunks * slices; ++task)
        thin_slice<T, C>(t, task / slices, cut(task % slices), cut(task % slices + 1));
#pragma omp parallel for num_threads(threads) schedule(static) if (t.chunks * in.depth * C > kSmallSum)
    for (int64_t k = 0; k < in.depth; ++k)
        for (int c = 0; c < C; ++c) {
            T sum = in.partial[c * in.depth + k];
            for (int64_t chunk = 1; chunk < t.chunks; ++chunk) sum += in.partial[(chunk * pitch + c) * in.depth + k];
            in.grad_w[k * C + c] = sum;
        }
    if (t.grad_bias != nullptr) add_partials(t.bias_partial, t.chunks, pitch, C, t.grad_bias);
}

template <class T>
void thin_backward(const DenseTask<T>& t, int threads) {
    if (t.input[0].grad_x != nullptr) turn(t.input[0], t.columns);
    with_vectors<most_outputs<T>>(t.columns, [&]<int C>() { thin_gradients<T, C>(t, threads); });
}

}  // namespace kernels
