// Cross entropy of logits, of classes or of 0/1 entries, and its gradient in one pass over memory.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/exponential.hpp"

namespace kernels {

constexpr int64_t kLossChunk = 1 << 14;  // entries of one partial sum; fixed, so that threads change no result

// One vector of entries: stores their gradients, returns their losses.
template <class T, class Part>
inline vec<T> entropy(const Part& part, const T* logits, const T* targets, vec<T> share, T* gradient) {
    const vec<T> z = part.load(logits), y = part.load(targets);
    const vec<T> zero{}, one = broadcast(T(1));
    const vec<T> e = exponential_or_zero<T>(z > zero ? -z : z), inverse = one / (one + e);
    part.store(gradient, share * ((z > zero ? inverse : e * inverse) - y));
    // infinite logits times a target of 0 are NaN
    return share * ((z > zero ? z : zero) - (y == zero ? zero : z * y) + log_one_plus(e));
}

// Return the sum of share * bce(logit, target); `gradient` [n] gets share * (sigmoid(logit) - target).
template <class T>
double binary_cross_entropy(const T* logits, const T* targets, const T* share, T constant, T* gradient, int64_t count,
                            int threads) {
    const int64_t chunks = (count + kLossChunk - 1) / kLossChunk;
    std::vector<double> partial(chunks);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const int64_t begin = chunk * kLossChunk, end = std::min(begin + kLossChunk, count);
        vec<T> lane{};
        int64_t at = begin;
        for (; at + lanes<T> <= end; at += lanes<T>)
            lane += entropy(Whole<T>(), logits + at, targets + at,
                            share != nullptr ? load(share + at) : broadcast(constant), gradient + at);
        if (at < end) {
            const First<T> rest(end - at);
            T shares[lanes<T>];
            std::fill_n(shares, lanes<T>, constant);
            const vec<T> factors = rest.load(share != nullptr ? share + at : shares);  // 0 in the other lanes
            lane += entropy(rest, logits + at, targets + at, factors, gradient + at);
        }
        partial[chunk] = sum<T>(lane);
    }
    double total = 0;
    for (const double value : partial) total += value;
    return total;
}

constexpr int64_t kFewClasses = 64;  // exponentials that are added up in T

// Entry i of a vector belongs to row i: one vector of rows, `columns` [classes, lanes] holds their logits.
template <class T>
struct RowBlock {
    int64_t rows, classes;
    T* columns;

    T* at(int64_t c) const { return columns + c * lanes<T>; }

    void read(const T* logits) const {
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t c = 0; c < classes; ++c) at(c)[row] = logits[row * classes + c];
    }

    void write(T* gradient) const {
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t c = 0; c < classes; ++c) gradient[row * classes + c] = at(c)[row];
    }

    // Replaces logits by e^(logit - largest of the row) and returns their sums, and the largest.
    std::pair<vec<T>, vec<T>> exponentiate() const {
        vec<T> largest = load(at(0)), sum{};
        for (int64_t c = 1; c < classes; ++c) largest = maximum<T>(load(at(c)), largest);
        for (int64_t first = 0; first < classes; first += kFewClasses) {
            vec<T> few{};
            for (int64_t c = first; c < std::min(classes, first + kFewClasses); ++c) {
                const vec<T> power = exponential_or_zero<T>(load(at(c)) - largest);
                store(at(c), power);
                few += power;
            }
            sum += few;
        }
        return {sum, largest};
    }
};

// Losses of one vector of rows; `gradient` gets share * (softmax - 1 at the label), 0 where the label is missing.
template <class T>
double block_entropy(const RowBlock<T>& block, const T* logits, const int64_t* labels, T share, T* gradient) {
    T known[lanes<T>] = {}, chosen[lanes<T>] = {};
    for (int64_t row = 0; row < block.rows; ++row)
        if (labels[row] >= 0) known[row] = share, chosen[row] = logits[row * block.classes + labels[row]];
    block.read(logits);
    const auto [sum, largest] = block.exponentiate();
    const vec<T> losses = logarithm(sum) - (load(chosen) - largest), factor = load(known) / sum;
    for (int64_t c = 0; c < block.classes; ++c) store(block.at(c), load(block.at(c)) * factor);
    block.write(gradient);
    double total = 0;
    for (int64_t row = 0; row < block.rows; ++row) {
        T* to = gradient + row * block.classes;
        if (labels[row] >= 0)
            to[labels[row]] -= share, total += double(losses[row]) * share;
        else
            std::fill(to, to + block.classes, T(0));
    }
    return total;
}

// Mean loss of the rows with a label, -1 for none; `gradient` [rows, classes] gets that of the mean. Throws for a label
// that is no class.
template <class T>
double cross_entropy(const T* logits, const int64_t* labels, T* gradient, int64_t rows, int64_t classes, int threads) {
    int64_t known = 0;
    for (int64_t row = 0; row < rows; ++row) {
        if (labels[row] < -1 || labels[row] >= classes)
            throw std::out_of_range("label " + std::to_string(labels[row]) + " of row " + std::to_string(row) +
                                    " is no class: allowed are 0 to " + std::to_string(classes - 1) +
                                    ", and -1 for a missing label");
        known += labels[row] >= 0;
    }
    const T share = T(1) / T(known);
    const int64_t size = std::max<int64_t>(1, kLossChunk / classes / lanes<T>) * lanes<T>;
    const int64_t chunks = (rows + size - 1) / size;
    std::vector<double> partial(chunks);
#pragma omp parallel for num_threads(threads) schedule(static) if (chunks > 1)
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        std::vector<T> columns(classes * lanes<T>);
        const int64_t end = std::min(rows, (chunk + 1) * size);
        for (int64_t row = chunk * size; row < end; row += lanes<T>) {
            const RowBlock<T> block{std::min<int64_t>(lanes<T>, end - row), classes, columns.data()};
            const int64_t at = row * classes;
            partial[chunk] += block_entropy(block, logits + at, labels + row, share, gradient + at);
        }
    }
    double total = 0;
    for (const double value : partial) total += value;
    return known == 0 ? std::numeric_limits<double>::quiet_NaN() : total;
}

}  // namespace kernels
