#include "aggregate/maximum.hpp"
#include "common/bindings.hpp"

namespace {

template <class T, class I>
void max_forward(In<I> indptr, In<I> indices, In<int64_t> bounds, In<int64_t> hubs, In<T> x, Maybe<T> weight, Out<T> y,
                 Out<I> winner, int threads) {
    const kernels::MaxTask<T, I> task{view(indptr, indices), x.data(),      pointer(weight),
                                      y.data(),              winner.data(), int64_t(x.shape(1))};
    const auto plan = plan_of(bounds, hubs);
    nb::gil_scoped_release released;
    kernels::max_rows(task, plan, threads);
}

// Fills `grad_x` and `grad_weight`, where these are not None.
template <class T, class I>
void max_backward(In<I> indptr, In<I> indices, In<int64_t> bounds, In<T> x, Maybe<T> weight, In<I> winner, In<T> grad,
                  std::optional<Out<T>> grad_x, std::optional<Out<T>> grad_weight, int threads) {
    const kernels::MaxTask<T, I> task{view(indptr, indices), x.data(), pointer(weight), nullptr,
                                      const_cast<I*>(winner.data()), int64_t(x.shape(1))};
    const auto plan = plan_of(bounds);
    nb::gil_scoped_release released;
    if (grad_x) kernels::max_backward_x(task, grad.data(), grad_x->data(), int64_t(x.shape(0)), threads);
    if (grad_weight) kernels::max_backward_weight(task, plan, grad.data(), grad_weight->data(), threads);
}

}  // namespace

void define_maximum(nb::module_& m) {
    for_each_type([&]<class T, class I>() {
        m.def("max_forward", &max_forward<T, I>, "indptr"_a, "indices"_a, "bounds"_a, "hubs"_a, "x"_a,
              "weight"_a.none(), "y"_a, "winner"_a, "threads"_a);
        m.def("max_backward", &max_backward<T, I>, "indptr"_a, "indices"_a, "bounds"_a, "x"_a, "weight"_a.none(),
              "winner"_a, "grad"_a, "grad_x"_a.none(), "grad_weight"_a.none(), "threads"_a);
    });
}
