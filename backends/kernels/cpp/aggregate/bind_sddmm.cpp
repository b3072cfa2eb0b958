#include "aggregate/sddmm.hpp"
#include "common/bindings.hpp"

namespace {

template <class T, class I>
void sddmm(In<I> indptr, In<I> indices, In<T> on_rows, In<T> on_columns, Out<T> out, int threads) {
    const kernels::SddmmTask<T, I> task{view(indptr, indices), on_rows.data(), on_columns.data(), out.data(),
                                        int64_t(on_rows.shape(1)), int64_t(on_rows.shape(2))};
    nb::gil_scoped_release released;
    kernels::sddmm(task, threads);
}

template <class T, class I>
void sum_heads(In<I> indptr, In<I> indices, In<int64_t> bounds, In<int64_t> hubs, Maybe<I> place, In<T> factor, In<T> x,
               Out<T> y, int threads) {
    const kernels::HeadSumTask<T, I> task{view(indptr, indices), pointer(place), factor.data(), x.data(), y.data(),
                                          int64_t(x.shape(1)), int64_t(x.shape(2))};
    const auto plan = plan_of(bounds, hubs);
    nb::gil_scoped_release released;
    kernels::sum_heads(task, plan, threads);
}

}  // namespace

void define_sddmm(nb::module_& m) {
    for_each_type([&]<class T, class I>() {
        m.def("sddmm", &sddmm<T, I>, "indptr"_a, "indices"_a, "on_rows"_a, "on_columns"_a, "out"_a, "threads"_a);
        m.def("sum_heads", &sum_heads<T, I>, "indptr"_a, "indices"_a, "bounds"_a, "hubs"_a, "place"_a.none(),
              "factor"_a, "x"_a, "y"_a, "threads"_a);
    });
}
