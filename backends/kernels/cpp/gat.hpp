// Graph attention over in-edges, fused: scores, softmax and weighted sum of a row while its edges are in cache.
//
// Only each row's largest score and its sum of exponentials are kept; the backward pass recomputes the rest.
#pragma once
#include "exponential.hpp"
#include "spmm.hpp"

namespace kernels {

// Attention dropout whose mask is a hash of (seed, edge, head): the same in every pass, for any number of threads.
struct Dropout {
    uint64_t seed;
    uint64_t bound;  // words below it drop
    double scale;

    Dropout(double rate, uint64_t seed_) : seed(seed_), bound(0), scale(1.0) {
        if (rate > 0) {
            bound = uint64_t(rate * 18446744073709551616.0);
            scale = 1.0 / (1.0 - rate);
        }
    }

    template <class T>
    inline T factor(uint64_t edge, uint64_t head) const {
        if (bound == 0) return T(1);
        uint64_t word = seed + (edge * 64 + head) * 0x9E3779B97F4A7C15ull;
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
        word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
        word ^= word >> 31;
        return word < bound ? T(0) : T(scale);
    }
};

template <class T, class I>
struct GatTask {
    CsrView<I> a;
    const T* z;          // [columns, heads, width]
    const T* score_src;  // [columns, heads]
    const T* score_dst;  // [rows, heads]
    T* row_max;          // [rows, heads]
    T* row_sum;          // [rows, heads]
    int64_t heads, width;
    T slope;
    Dropout dropout;

    inline T leaky(T score) const { return score > 0 ? score : slope * score; }
};

// out [width] += sum of factor[e] * z[source(e), head] over `count` edges.
template <class T, class I, int V>
inline void add_head(const I* sources, const T* factor, int64_t count, const T* z, int64_t stride, int64_t width,
                     int64_t first, T* out, bool fresh) {
    vec<T> acc[V];
    int64_t at[V];
    for (int v = 0; v < V; ++v) {
        at[v] = offset<T>(first + v, width);
        acc[v] = fresh ? vec<T>{} : load(out + at[v]);
    }
    for (int64_t e = 0; e < count; ++e) {
        const T* row = z + int64_t(sources[e]) * stride;
        const vec<T> f = broadcast(factor[e]);
        for (int v = 0; v < V; ++v) acc[v] += f * load(row + at[v]);
    }
    for (int v = 0; v < V; ++v) store(out + at[v], acc[v]);
}

template <class T, class I>
inline void add_weighted(const I* sources, const T* factor, int64_t count, const T* z, int64_t stride, int64_t width,
                         T* out, bool fresh) {
    if (width < lanes<T>) {
        T acc[lanes<T>];
        for (int64_t c = 0; c < width; ++c) acc[c] = fresh ? T(0) : out[c];
        for (int64_t e = 0; e < count; ++e)
            for (int64_t c = 0; c < width; ++c) acc[c] += factor[e] * z[int64_t(sources[e]) * stride + c];
        for (int64_t c = 0; c < width; ++c) out[c] = acc[c];
        return;
    }
    const int64_t vectors = (width + lanes<T> - 1) / lanes<T>;
    const int64_t groups = (vectors + kGroup - 1) / kGroup;
    for (int64_t g = 0; g < groups; ++g) {
        const int64_t first = g * vectors / groups, last = (g + 1) * vectors / groups;
        switch (last - first) {
            case 1: add_head<T, I, 1>(sources, factor, count, z, stride, width, first, out, fresh); break;
            case 2: add_head<T, I, 2>(sources, factor, count, z, stride, width, first, out, fresh); break;
            case 3: add_head<T, I, 3>(sources, factor, count, z, stride, width, first, out, fresh); break;
            case 4: add_head<T, I, 4>(sources, factor, count, z, stride, width, first, out, fresh); break;
            case 5: add_head<T, I, 5>(sources, factor, count, z, stride, width, first, out, fresh); break;
            case 6: add_head<T, I, 6>(sources, factor, count, z, stride, width, first, out, fresh); break;
            case 7: add_head<T, I, 7>(sources, factor, count, z, stride, width, first, out, fresh); break;
            default: add_head<T, I, 8>(sources, factor, count, z, stride, width, first, out, fresh); break;
        }
    }
}

template <class T, class I>
void attend_row(const GatTask<T, I>& t, int64_t row, T* factor, T* out) {
    const int64_t begin = t.a.indptr[row], end = t.a.indptr[row + 1], stride = t.heads * t.width;
    for (int64_t h = 0; h < t.heads; ++h) {
        const T dst = t.score_dst[row * t.heads + h];
        T largest = -INFINITY;  // leaky is monotone, so the largest source score gives the largest score
        for (int64_t e = begin; e < end; ++e)
            largest = std::max(largest, t.score_src[int64_t(t.a.indices[e]) * t.heads + h]);
        const T top = begin == end ? T(0) : t.leaky(largest + dst);
        T total = 0;
        T* to = out + h * t.width;
        for (int64_t block = begin; block < end; block += kEdgeBlock) {
            const int64_t count = std::min(kEdgeBlock, end - block);
            const I* sources = t.a.indices + block;
            for (int64_t e = 0; e < count; ++e)
                factor[e] = t.leaky(t.score_src[int64_t(sources[e]) * t.heads + h] + dst) - top;
            exponentials(factor, count);
            for (int64_t e = 0; e < count; ++e) total += factor[e];
            if (t.dropout.bound != 0)
                for (int64_t e = 0; e < count; ++e) factor[e] *= t.dropout.template factor<T>(block + e, h);
            for (int64_t e = 0; h == 0 && e < count; ++e)
                prefetch_row(t.z + int64_t(sources[e]) * stride, std::min<int64_t>(stride, 128));
            add_weighted(sources, factor, count, t.z + h * t.width, stride, t.width, to, block == begin);
        }
        const T inverse = begin == end ? T(0) : T(1) / total;
        for (int64_t c = 0; c < t.width; ++c) to[c] = begin == end ? T(0) : to[c] * inverse;
        t.row_max[row * t.heads + h] = top;
        t.row_sum[row * t.heads + h] = total;
    }
}

template <class T, class I>
void gat_forward(const GatTask<T, I>& t, const RowPlan& plan, T* out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk) {
        T factor[kEdgeBlock];
        for (int64_t row = plan.bounds[chunk]; row < plan.bounds[chunk + 1]; ++row)
            attend_row(t, row, factor, out + row * t.heads * t.width);
    }
}

// What flows back: `t.a` is the transpose here, its row j a source, its columns the destinations j sends to.
template <class T, class I>
struct GatGradient {
    const I* permutation;  // [nnz]: position of each transposed edge in the forward order
    const T* grad;         // [rows, heads, width] of the output
    const T* row_dot;      // [rows, heads]: inner product of the output and its gradient
    T* edge_grad;          // [nnz, heads] of the scores before leaky, in transposed order
    T* grad_z;             // [columns, heads, width]
    T* grad_src;           // [columns, heads]
    T* grad_dst;           // [rows, heads]
};

template <class T>
inline T dot(const T* a, const T* b, int64_t width) {
    if (width < lanes<T>) {
        T total = 0;
        for (int64_t c = 0; c < width; ++c) total += a[c] * b[c];
        return total;
    }
    vec<T> acc{};
    int64_t c = 0;
    for (; c + lanes<T> <= width; c += lanes<T>) acc += load(a + c) * load(b + c);
    T total = sum<T>(acc);
    for (; c < width; ++c) total += a[c] * b[c];
    return total;
}

template <class T, class I>
void spread_source(const GatTask<T, I>& t, const GatGradient<T, I>& g, int64_t source, T* factor) {
    const int64_t begin = t.a.indptr[source], end = t.a.indptr[source + 1], stride = t.heads * t.width;
    for (int64_t h = 0; h < t.heads; ++h) {
        const T* own = t.z + source * stride + h * t.width;
        const T src = t.score_src[source * t.heads + h];
        T* to = g.grad_z + source * stride + h * t.width;
        T total = 0;
        if (begin == end) std::fill(to, to + t.width, T(0));
        for (int64_t block = begin; block < end; block += kEdgeBlock) {
            const int64_t count = std::min(kEdgeBlock, end - block);
            const I* rows = t.a.indices + block;
            T raw[kEdgeBlock], alpha[kEdgeBlock];
            for (int64_t e = 0; e < count; ++e) {
                const int64_t at = int64_t(rows[e]) * t.heads + h;
                raw[e] = src + t.score_dst[at];
                alpha[e] = t.leaky(raw[e]) - t.row_max[at];
            }
            exponentials(alpha, count);
            for (int64_t e = 0; e < count; ++e) {
                const int64_t row = rows[e], at = row * t.heads + h;
                if (e + kAhead < count)
                    prefetch_row(g.grad + int64_t(rows[e + kAhead]) * stride + h * t.width, t.width);
                const T kept = t.dropout.template factor<T>(uint64_t(g.permutation[block + e]), h);
                const T a = alpha[e] / t.row_sum[at];
                const T flow = kept * dot(g.grad + row * stride + h * t.width, own, t.width) - g.row_dot[at];
                const T back = a * flow * (raw[e] > 0 ? T(1) : t.slope);
                g.edge_grad[(block + e) * t.heads + h] = back;
                total += back;
                factor[e] = a * kept;
            }
            add_weighted(rows, factor, count, g.grad + h * t.width, stride, t.width, to, block == begin);
        }
        g.grad_src[source * t.heads + h] = total;
    }
}

template <class T, class I>
void gat_backward(const GatTask<T, I>& t, const GatGradient<T, I>& g, const RowPlan& plan, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk) {
        T factor[kEdgeBlock];
        for (int64_t source = plan.bounds[chunk]; source < plan.bounds[chunk + 1]; ++source)
            spread_source(t, g, source, factor);
    }
}

// grad_dst [rows, heads]: the score gradients of each row's edges; `inverse` maps forward order to transposed order.
template <class T, class I>
void sum_edge_gradients(const I* indptr, const I* inverse, const RowPlan& plan, int64_t heads,
                        const GatGradient<T, I>& g, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
        for (int64_t row = plan.bounds[chunk]; row < plan.bounds[chunk + 1]; ++row) {
            T* to = g.grad_dst + row * heads;
            std::fill(to, to + heads, T(0));
            for (int64_t e = indptr[row]; e < indptr[row + 1]; ++e)
                for (int64_t h = 0; h < heads; ++h) to[h] += g.edge_grad[int64_t(inverse[e]) * heads + h];
        }
}

}  // namespace kernels
