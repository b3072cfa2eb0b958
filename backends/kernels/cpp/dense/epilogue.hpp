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

// The activation's input, from its output; any finite number where the slope is 0.
template <class T>
inline vec<T> before(vec<T> y, Activation kind) {
    const vec<T> zero{};
    return kind == Activation::elu ? (y > zero ? y : log_one_minus(y > zero ? zero : y)) : y;
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

// Gradients of dropout(activation(x + bias)) from its output y [rows, heads, width].
template <class T>
struct EpilogueGradient {
    const T* grad_y;
    const T* y;     // not read where the activation is none and `inner` null
    const T* bias;  // read for `inner` only
    T* grad_x;      // null where that is grad_y, without activation and dropout
    T* inner;       // [rows, heads]: inner products of x, recovered from y, and grad_x; or null
    int64_t heads, width;
    Activation kind;
    const Dropout<T>* dropout;  // or null
};

// Columns of one row, of which the mask's first is `column`: adds their gradients to the bias's and returns what they
// add to the inner product.
template <class T, class Part>
inline vec<T> gradient_columns(const EpilogueGradient<T>& g, const RowDropout<T>& drop, const Part& part,
                               int64_t column, const T* grad_y, const T* y, const T* bias, T* grad_x, T* sums) {
    vec<T> grad = drop(part.load(grad_y), column), active{};
    if (y != nullptr) active = g.dropout == nullptr ? part.load(y) : part.load(y) / g.dropout->scale;
    if (g.kind != Activation::none) grad *= slope_of<T>(active, g.kind);
    if (grad_x != nullptr) part.store(grad_x, grad);
    store(sums, load(sums) + grad);  // lanes beyond the columns are 0
    return g.inner == nullptr ? vec<T>{} : grad * (before<T>(active, g.kind) - part.load(bias));
}

template <class T>
inline T gradient_head(const EpilogueGradient<T>& g, const RowDropout<T>& drop, int64_t at, int64_t first,
                       T* sums) {
    const auto moved = [](auto* from, int64_t by) { return from == nullptr ? from : from + by; };
    vec<T> products{};
    const auto add = [&](int64_t c, const auto& part) {
        products += gradient_columns(g, drop, part, first + c, g.grad_y + at + c, moved(g.y, at + c),
                                     moved(g.bias, first + c), moved(g.grad_x, at + c), sums + first + c);
    };
    int64_t c = 0;
    for (; c + lanes<T> <= g.width; c += lanes<T>) add(c, Whole<T>());
    if (c < g.width) add(c, First<T>(g.width - c));
    return sum<T>(products);
}

// `partial` holds partials_of(rows) rows of all heads' columns; `grad_bias` [heads, width] may be null.
// Gradients of a loss cancel, and one long sum leaves too few digits: sums of a few rows are added up in double.
template <class T>
void bias_activation_backward(const EpilogueGradient<T>& g, T* partial, T* grad_bias, int64_t rows, int threads) {
    const int64_t size = partial_rows(rows), chunks = partials_of(rows), stride = g.heads * g.width;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        std::vector<double> sums(stride);
        std::vector<T> few(stride + lanes<T>);  // whole vectors are added to its last columns, too
        const int64_t end = std::min(rows, (chunk + 1) * size);
        for (int64_t block = chunk * size; block < end; block += kFewRows) {
            std::fill(few.begin(), few.end(), T(0));
            for (int64_t row = block; row < std::min(end, block + kFewRows); ++row) {
                const RowDropout<T> drop(g.dropout, row);
                for (int64_t h = 0; h < g.heads; ++h) {
                    const T product = gradient_head(g, drop, row * stride + h * g.width, h * g.width, few.data());
                    if (g.inner != nullptr) g.inner[row * g.heads + h] = product;
                }
            }
            for (int64_t c = 0; c < stride; ++c) sums[c] += few[c];
        }
        std::copy(sums.begin(), sums.end(), partial + chunk * stride);
    }
    if (grad_bias != nullptr) add_partials(partial, chunks, stride, stride, grad_bias);
}

}  // namespace kernels
