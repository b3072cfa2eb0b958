#include "aggregate/spmm.hpp"
#include "common/bindings.hpp"

namespace {

template <class T, class I>
void spmm(In<I> indptr, In<I> indices, In<int64_t> bounds, In<int64_t> hubs, In<T> x, Maybe<T> weight,
          Maybe<T> row_scale, Maybe<T> addend, Out<T> y, Maybe<I> starts, int threads) {
    const kernels::SpmmTask<T, I> task{view(indptr, indices), x.data(),
                                       pointer(weight),       pointer(row_scale),
                                       pointer(addend),       y.data(),
                                       int64_t(x.shape(0)),   int64_t(x.shape(1)),
                                       pointer(starts),       starts ? int64_t(starts->shape(0)) - 1 : 1};
    const auto plan = plan_of(bounds, hubs);
    nb::gil_scoped_release released;
    if (task.weight != nullptr)
        kernels::spmm_rows<T, I, true>(task, plan, threads);
    else
        kernels::spmm_rows<T, I, false>(task, plan, threads);
}

template <class I>
bool cut_panels(In<I> indptr, In<I> indices, int64_t columns, Out<I> starts, int threads) {
    const auto csr = view(indptr, indices);
    nb::gil_scoped_release released;
    return kernels::cut_panels(csr, columns, int64_t(starts.shape(0)) - 1, starts.data(), threads);
}

// Into how many tasks a product of float32 is cut.
int64_t product_tasks(int64_t pieces, int64_t width, int threads) {
    return pieces * kernels::slices_of(pieces, kernels::Cut<float>(width).groups, threads);
}

}  // namespace

void define_spmm(nb::module_& m) {
    for_each_type([&]<class T, class I>() {
        m.def("spmm", &spmm<T, I>, "indptr"_a, "indices"_a, "bounds"_a, "hubs"_a, "x"_a, "weight"_a.none(),
              "row_scale"_a.none(), "addend"_a.none(), "y"_a, "starts"_a.none(), "threads"_a);
    });
    m.def("cut_panels", &cut_panels<int32_t>, "indptr"_a, "indices"_a, "columns"_a, "starts"_a, "threads"_a);
    m.def("cut_panels", &cut_panels<int64_t>, "indptr"_a, "indices"_a, "columns"_a, "starts"_a, "threads"_a);
    m.def("product_tasks", &product_tasks, "pieces"_a, "width"_a, "threads"_a);
    m.attr("hub_segment") = kernels::kHubSegment;
    m.attr("near_bytes") = kernels::kNearBytes;
}
