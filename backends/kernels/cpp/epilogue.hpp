// What follows an aggregation, in one pass: bias and activation, and back with the bias's gradient.
#pragma once
#include "exponential.hpp"
#include "partials.hpp"

namespace kernels {

enum class Activation { none, relu, elu };

template <class T>
inline vec<T> activate(vec<T> x, Activation kind) {
    const vec<T> zero{};
    if (kind == Activation::relu) return x > zero ? x : zero;
    if (kind == Activation::elu) return x > zero ? x : exponential(x > zero ? zero : x) - 1;
    return x;
}

// The activation's slope from its own output.
template <class T>
inline vec<T> slope_of(vec<T> y, Activation kind) {
    const vec<T> zero{}, one = broadcast(T(1));
    if (kind == Activation::relu) return y > zero ? one : zero;
    if (kind == Activation::elu) return y > zero ? one : y + one;
    return one;
}

template <class T>
void bias_activation(const T* x, const T* bias, Activation kind, T* y, int64_t rows, int64_t width, int threads) {
    const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t block = 0; block < blocks; ++block)
        for (int64_t row = block * kRowBlock; row < std::min(rows, (block + 1) * kRowBlock); ++row) {
            const T* from = x + row * width;
            T* to = y + row * width;
            int64_t c = 0;
            for (; c + lanes<T> <= width; c += lanes<T>) store(to + c, activate<T>(load(from + c) + load(bias + c), kind));
            T part[lanes<T>] = {};
            for (int64_t i = c; i < width; ++i) part[i - c] = from[i] + bias[i];
            store(part, activate<T>(load(part), kind));
            std::copy(part, part + (width - c), to + c);
        }
}

// grad_x = grad_y * slope(y), which may be grad_y itself, and its sum over rows; `partial` holds partials_of(rows) rows.
template <class T>
void bias_activation_backward(const T* grad_y, const T* y, Activation kind, T* grad_x, T* partial, T* grad_bias,
                              int64_t rows, int64_t width, int threads) {
    const int64_t size = partial_rows(rows), chunks = partials_of(rows);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        T* sums = partial + chunk * width;
        std::fill(sums, sums + width, T(0));
        for (int64_t row = chunk * size; row < std::min(rows, (chunk + 1) * size); ++row) {
            const int64_t at = row * width;
            int64_t c = 0;
            for (; c + lanes<T> <= width; c += lanes<T>) {
                const vec<T> grad = load(grad_y + at + c) * slope_of<T>(load(y + at + c), kind);
                store(grad_x + at + c, grad);
                store(sums + c, load(sums + c) + grad);
            }
            for (; c < width; ++c) {
                const T grad = grad_y[at + c] * slope_of<T>(broadcast(y[at + c]), kind)[0];
                grad_x[at + c] = grad;
                sums[c] += grad;
            }
        }
    }
    add_partials(partial, chunks, 1, width, width, grad_bias);
}

}  // namespace kernels
