#include "aggregate/softmax.hpp"
#include "common/bindings.hpp"

namespace {

// Forward where `grad` is None; backward with the softmax as `in`.
template <class T, class I>
void edge_softmax(In<I> indptr, In<int64_t> bounds, In<int64_t> hubs, In<T> in, Maybe<T> grad, Out<T> out, int threads) {
    const kernels::SoftmaxTask<T, I> task{indptr.data(), in.data(), pointer(grad), out.data(), int64_t(in.shape(1))};
    const auto plan = plan_of(bounds, hubs);
    nb::gil_scoped_release released;
    kernels::edge_softmax(task, plan, threads);
}

}  // namespace

void define_softmax(nb::module_& m) {
    for_each_type([&]<class T, class I>() {
        m.def("edge_softmax", &edge_softmax<T, I>, "indptr"_a, "bounds"_a, "hubs"_a, "in"_a, "grad"_a.none(), "out"_a,
              "threads"_a);
    });
}
