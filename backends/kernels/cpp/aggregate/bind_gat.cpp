#include "aggregate/gat_backward.hpp"
#include "aggregate/gat_fixed.hpp"
#include "common/bindings_mask.hpp"

namespace {

template <class T, class I>
kernels::GatTask<T, I> attention(kernels::CsrView<I> a, In<T> z, In<T> score_src, In<T> score_dst, Maybe<T> score_edge,
                                 double slope, const std::optional<Mask>& mask, T* row_max, T* row_sum) {
    return {a, z.data(), score_src.data(), score_dst.data(), pointer(score_edge), row_max, row_sum,
            int64_t(score_src.shape(1)), int64_t(z.shape(2)), z.shape(1) != score_src.shape(1), T(slope),
            dropout_of<T>(mask).value_or(kernels::Dropout<T>{})};
}

template <class T, class I>
void gat_forward(In<I> indptr, In<I> indices, In<int64_t> bounds, In<int64_t> hubs, In<T> z, In<T> score_src,
                 In<T> score_dst, Maybe<T> score_edge, double slope, const std::optional<Mask>& mask,
                 Out<T> row_max, Out<T> row_sum, Out<T> out, int threads) {
    const auto task = attention<T>(view(indptr, indices), z, score_src, score_dst, score_edge, slope, mask,
                                   row_max.data(), row_sum.data());
    const auto plan = plan_of(bounds, hubs);
    nb::gil_scoped_release released;
    kernels::gat_forward(task, plan, out.data(), threads);
}

template <class T, class I>
void gat_backward(In<I> indptr, In<I> indices, In<int64_t> bounds, In<int64_t> hubs, In<I> permutation,
                  In<I> by_row_indptr, In<I> inverse, In<int64_t> row_bounds, In<int64_t> row_hubs, In<T> z,
                  In<T> score_src, In<T> score_dst, Maybe<T> score_edge, double slope, const std::optional<Mask>& mask,
                  In<T> row_max, In<T> row_sum, In<T> grad, Out<T> grad_z, Out<T> grad_src, Out<T> grad_dst,
                  std::optional<Out<T>> grad_edge, Out<T> terms, Out<T> inner, int threads) {
    const auto task = attention<T>(view(indptr, indices), z, score_src, score_dst, score_edge, slope, mask,
                                   const_cast<T*>(row_max.data()), const_cast<T*>(row_sum.data()));
    const kernels::GatGradient<T, I> flow{view(by_row_indptr, indices), permutation.data(), inverse.data(),
                                          grad.data(), grad_z.data(), grad_src.data(), grad_dst.data(),
                                          grad_edge ? grad_edge->data() : nullptr, terms.data(), inner.data()};
    const auto sources = plan_of(bounds, hubs), rows = plan_of(row_bounds, row_hubs);
    nb::gil_scoped_release released;
    kernels::gat_backward(task, flow, sources, rows, threads);
}

template <class T, class I>
void gat_backward_fixed(In<I> indptr, In<I> indices, In<int64_t> bounds, In<int64_t> hubs, In<T> z, In<T> score_src,
                        In<T> score_dst, Maybe<T> score_edge, double slope, const std::optional<Mask>& mask,
                        In<T> row_max, In<T> row_sum, In<T> grad, Out<T> grad_src, Out<T> grad_dst, Out<T> grad_edge,
                        Out<T> terms, Out<T> inner, int threads) {
    const auto task = attention<T>(view(indptr, indices), z, score_src, score_dst, score_edge, slope, mask,
                                   const_cast<T*>(row_max.data()), const_cast<T*>(row_sum.data()));
    const kernels::FixedGradient<T, I> flow{grad.data(), grad_src.data(), grad_dst.data(), grad_edge.data(),
                                            terms.data(), inner.data(), int64_t(score_src.shape(0))};
    const auto plan = plan_of(bounds, hubs);
    nb::gil_scoped_release released;
    kernels::gat_backward_fixed(task, flow, plan, threads);
}

}  // namespace

void define_gat(nb::module_& m) {
    for_each_type([&]<class T, class I>() {
        m.def("gat_forward", &gat_forward<T, I>, "indptr"_a, "indices"_a, "bounds"_a, "hubs"_a, "z"_a, "score_src"_a,
              "score_dst"_a, "score_edge"_a.none(), "slope"_a, "mask"_a.none(), "row_max"_a,
              "row_sum"_a, "out"_a, "threads"_a);
        m.def("gat_backward_fixed", &gat_backward_fixed<T, I>, "indptr"_a, "indices"_a, "bounds"_a, "hubs"_a, "z"_a,
              "score_src"_a, "score_dst"_a, "score_edge"_a.none(), "slope"_a, "mask"_a.none(), "row_max"_a, "row_sum"_a,
              "grad"_a, "grad_src"_a, "grad_dst"_a, "grad_edge"_a, "terms"_a, "inner"_a, "threads"_a);
        m.def("gat_backward", &gat_backward<T, I>, "indptr"_a, "indices"_a, "bounds"_a, "hubs"_a, "permutation"_a,
              "by_row_indptr"_a, "inverse"_a, "row_bounds"_a, "row_hubs"_a, "z"_a, "score_src"_a, "score_dst"_a,
              "score_edge"_a.none(), "slope"_a, "mask"_a.none(), "row_max"_a, "row_sum"_a, "grad"_a,
              "grad_z"_a, "grad_src"_a, "grad_dst"_a, "grad_edge"_a.none(), "terms"_a, "inner"_a,
              "threads"_a);
    });
}
