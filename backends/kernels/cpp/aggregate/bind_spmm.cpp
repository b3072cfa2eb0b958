#include "aggregate/spmm.hpp"
#include "common/bindings.hpp"

namespace {

template <class T, class I>
void spmm(In<I> indptr, In<I> indices, In<int64_t> bounds, In<int64_t> hubs, In<T> x, Maybe<T> weight,
          Maybe<T> row_scale, Maybe<T> addend, Out<T> y, int threads) {
    const kernels::SpmmTask<T, I> task{view(indptr, indices), x.data(),           pointer(weight),
                                       pointer(row_scale),    pointer(addend),    y.data(),
                                       int64_t(x.shape(0)),   int64_t(x.shape(1))};
    const auto plan = plan_of(bounds, hubs);
    nb::gil_scoped_release released;
    if (task.weight != nullptr)
        kernels::spmm_rows<T, I, true>(task, plan, threads);
    else
        kernels::spmm_rows<T, I, false>(task, plan, threads);
}

}  // namespace

void define_spmm(nb::module_& m) {
    for_each_type([&]<class T, class I>() {
        m.def("spmm", &spmm<T, I>, "indptr"_a, "indices"_a, "bounds"_a, "hubs"_a, "x"_a, "weight"_a.none(),
              "row_scale"_a.none(), "addend"_a.none(), "y"_a, "threads"_a);
    });
    m.attr("hub_segment") = kernels::kHubSegment;
    m.attr("near_bytes") = kernels::kNearBytes;
}
