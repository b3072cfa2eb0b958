#include "bind.hpp"
#include "gat.hpp"

namespace {

template <class T, class I>
void gat_forward(In<I> indptr, In<I> indices, In<int64_t> bounds, In<T> z, In<T> score_src, In<T> score_dst, T slope,
                 double dropout, uint64_t seed, Out<T> row_max, Out<T> row_sum, Out<T> out, int threads) {
    const kernels::GatTask<T, I> task{view(indptr, indices), z.data(), score_src.data(), score_dst.data(),
                                      row_max.data(), row_sum.data(), int64_t(z.shape(1)), int64_t(z.shape(2)),
                                      slope, kernels::Dropout(dropout, seed)};
    const auto plan = plan_of(bounds);
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
    const auto columns = plan_of(bounds), rows = plan_of(row_bounds);
    nb::gil_scoped_release released;
    kernels::gat_backward(task, flow, columns, threads);
    kernels::sum_edge_gradients(by_row_indptr.data(), inverse.data(), rows, task.heads, flow, threads);
}

}  // namespace

void define_gat(nb::module_& m) {
    for_each_type([&]<class T, class I>() {
        m.def("gat_forward", &gat_forward<T, I>);
        m.def("gat_backward", &gat_backward<T, I>);
    });
}
