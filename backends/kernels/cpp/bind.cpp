// The extension's surface: arrays in, arrays out, the interpreter lock released while kernels run.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include "gat.hpp"
#include "loss.hpp"
#include "spmm.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
template <class T>
using Maybe = std::optional<In<T>>;

template <class T>
const T* pointer(const Maybe<T>& array) {
    return array ? array->data() : nullptr;
}

kernels::RowPlan plan_of(const In<int64_t>& bounds, const In<int64_t>& hubs) {
    return {bounds.data(), int64_t(bounds.shape(0)) - 1, hubs.data(), int64_t(hubs.shape(0))};
}

template <class I>
kernels::CsrView<I> view(const In<I>& indptr, const In<I>& indices) {
    return {indptr.data(), indices.data(), int64_t(indptr.shape(0)) - 1};
}

template <class T, class I>
void spmm(In<I> indptr, In<I> indices, In<int64_t> bounds, In<int64_t> hubs, In<T> x, Maybe<T> weight,
          Maybe<T> row_scale, Out<T> y, int threads) {
    const kernels::SpmmTask<T, I> task{view(indptr, indices), x.data(), pointer(weight), pointer(row_scale),
                                       y.data(),              int64_t(x.shape(1))};
    const auto plan = plan_of(bounds, hubs);
    nb::gil_scoped_release released;
    if (task.weight != nullptr)
        kernels::spmm_rows<T, I, true>(task, plan, threads);
    else
        kernels::spmm_rows<T, I, false>(task, plan, threads);
}

template <class T, class I>
void gat_forward(In<I> indptr, In<I> indices, In<int64_t> bounds, In<T> z, In<T> score_src, In<T> score_dst, T slope,
                 double dropout, uint64_t seed, Out<T> row_max, Out<T> row_sum, Out<T> out, int threads) {
    const kernels::GatTask<T, I> task{view(indptr, indices), z.data(), score_src.data(), score_dst.data(),
                                      row_max.data(), row_sum.data(), int64_t(z.shape(1)), int64_t(z.shape(2)),
                                      slope, kernels::Dropout(dropout, seed)};
    const kernels::RowPlan plan{bounds.data(), int64_t(bounds.shape(0)) - 1, nullptr, 0};
    nb::gil_scoped_release released;
    kernels::gat_forward(task, plan, out.data(), threads);
}

template <class T, class I>
void gat_backward(In<I> indptr, In<I> indices, In<int64_t> bounds, In<I> permutation, In<I> by_row_indptr,
                  In<I> inverse, In<int64_t> row_bounds, In<T> z, In<T> score_src, In<T> score_dst, T slope,
                  double dropout, uint64_t seed, In<T> row_max, In<T> row_sum, In<T> grad, In<T> row_dot,
                  Out<T> edge_grad, Out<T> grad_z, Out<T> grad_src, Out<T> grad_dst, int threads) {
    const kernels::GatTask<T, I> task{view(indptr, indices), z.data(), score_src.data(), score_dst.data(),
                                      const_cast<T*>(row_max.data()), const_cast<T*>(row_sum.data()),
                                      int64_t(z.shape(1)), int64_t(z.shape(2)), slope, kernels::Dropout(dropout, seed)};
    const kernels::GatGradient<T, I> flow{permutation.data(), grad.data(), row_dot.data(), edge_grad.data(),
                                          grad_z.data(), grad_src.data(), grad_dst.data()};
    const kernels::RowPlan columns{bounds.data(), int64_t(bounds.shape(0)) - 1, nullptr, 0};
    const kernels::RowPlan rows{row_bounds.data(), int64_t(row_bounds.shape(0)) - 1, nullptr, 0};
    nb::gil_scoped_release released;
    kernels::gat_backward(task, flow, columns, threads);
    kernels::sum_edge_gradients(by_row_indptr.data(), inverse.data(), rows, task.heads, flow, threads);
}

template <class T>
double binary_cross_entropy(In<T> logits, In<T> targets, Maybe<T> share, T constant, Out<T> gradient, int threads) {
    nb::gil_scoped_release released;
    return kernels::binary_cross_entropy(logits.data(), targets.data(), pointer(share), constant, gradient.data(),
                                         int64_t(logits.size()), threads);
}

template <class T, class I>
void define(nb::module_& m) {
    m.def("spmm", &spmm<T, I>, "indptr"_a, "indices"_a, "bounds"_a, "hubs"_a, "x"_a, "weight"_a.none(),
          "row_scale"_a.none(), "y"_a, "threads"_a);
    m.def("gat_forward", &gat_forward<T, I>);
    m.def("gat_backward", &gat_backward<T, I>);
}

}  // namespace

NB_MODULE(_native, m) {
    define<float, int32_t>(m);
    define<float, int64_t>(m);
    define<double, int32_t>(m);
    define<double, int64_t>(m);
    m.def("binary_cross_entropy", &binary_cross_entropy<float>, "logits"_a, "targets"_a, "share"_a.none(), "constant"_a,
          "gradient"_a, "threads"_a);
    m.def("binary_cross_entropy", &binary_cross_entropy<double>, "logits"_a, "targets"_a, "share"_a.none(), "constant"_a,
          "gradient"_a, "threads"_a);
    m.attr("hub_segment") = kernels::kHubSegment;
}
