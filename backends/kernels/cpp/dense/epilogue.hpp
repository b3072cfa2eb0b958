// Bias, activation and dropout after an aggregation in one pass, and their gradients in one pass.
#pragma once
#include <vector>

#include "common/exponential.hpp"
#include "common/mask.hpp"
#include "common/partials.hpp"

namespace kernels {

constexpr int64_t kFewRows = 16;  // rows whose gradients are added up in T

enum class Activation { none, relu, elu };

template <class T>
inline vec<T> activate(vec<T> x, Activation kind) {
    const vec<T> zero{};
    if (kind == Activation::relu) return x < zero ? zero : x;  // NaN stays
    if (kind == Activation::elu) return x <= zero ? exponential_minus_one(x > zero ? zero : x) : x;
    return x;
}

// The activation's slope from its own output.
template <class T>
inline vec<T> slope_of(vec<T> y, Activation kind) {
    const vec<T> zero{}, one = broadcast(T(1));
    if (kind == Activation::relu) return y <= zero ? zero : one;
    if (kind == Activation::elu) return y > zero ? one : y + one;
    return one;
}

// `y` may be `x` itself; `dropout` may be null.
template <class T>
void bias_activation(const T* x, const T* bias, Activation kind, const Dropout<T>* dropout, T* y, int64_t rows,
                     int64_t width, int threads) {
    const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t block = 0; block < blocks; ++block)
        for (int64_t row = block * kRowBlock; row < std::min(rows, (block + 1) * kRowBlock); ++row) {
            const T* from = x + row * width;
            T* to = y + row * width;
            const RowDropout<T> drop(dropout, row);
            const auto finish = [&](int64_t c, const auto& part) {
                part.store(to + c, drop(activate<T>(part.load(from + c) + part.load(bias + c), kind), c));
            };
            int64_t c = 0;
            for (; c + lanes<T> <= width; c += lanes<T>) finish(c, Whole<T>());
            if (c < width) finish(c, First<T>(width - c));
        }
}

// Gradients of dropout(activation(x + bias)) from its output y [rows, width].
template <class T>
struct EpilogueGradient {
    const T* grad_y;
    const T* y;  // not read where the activation is none
    T* grad_x;   // null where that is grad_y, without activation and dropout
    int64_t width;
    Activation kind;
    const Dropout<T>* dropout;  // or null
};

// Columns from `c` on of a row whose first value is at `at`: their gradients, which are added to the bias's.
template <class T, class Part>
inline void gradient_columns(const EpilogueGradient<T>& g, const RowDropout<T>& drop, const Part& part, int64_t at,
                             int64_t c, T* sums) {
    vec<T> grad = drop(part.load(g.grad_y + at + c), c);
    if (g.kind != Activation::none) {
        const vec<T> y = part.load(g.y + at + c);
        grad *= slope_of<T>(g.dropout == nullptr ? y : y / g.dropout->scale, g.kind);
    }
    if (g.grad_x != nullptr) part.store(g.grad_x + at + c, grad);
    store(sums + c, load(sums + c) + grad);  // lanes beyond the columns are 0
}

// `partial` holds partials_of(rows) rows of the columns; `grad_bias` [width] may be null.
// Gradients of a loss cancel, and one long sum leaves too few digits: sums of a few rows are added up in double.
template <class T>
void bias_activation_backward(const EpilogueGradient<T>& g, T* partial, T* grad_bias, int64_t rows, int threads) {
    const int64_t size = partial_rows(rows), chunks = partials_of(rows), width = g.width;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        std::vector<double> sums(width);
        std::vector<T> few(width + lanes<T>);  // whole vectors are added to its last columns, too
        const int64_t end = std::min(rows, (chunk + 1) * size);
        for (int64_t block = chunk * size; block < end; block += kFewRows) {
            std::fill(few.begin(), few.end(), T(0));
            for (int64_t row = block; row < std::min(end, block + kFewRows); ++row) {
                const RowDropout<T> drop(g.dropout, row);
                int64_t c = 0;
                for (; c + lanes<T> <= width; c += lanes<T>)
                    gradient_columns(g, drop, Whole<T>(), row * width, c, few.data());
                if (c < width) gradient_columns(g, drop, First<T>(width - c), row * width, c, few.data());
            }
            for (int64_t c = 0; c < width; ++c) sums[c] += few[c];
        }
        std::copy(sums.begin(), sums.end(), partial + chunk * width);
    }
    if (grad_bias != nullptr) add_partials(partial, chunks, width, width, grad_bias);
}

}  // namespace kernels
