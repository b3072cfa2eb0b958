#include "common/bindings.hpp"
#include "dense/dropout.hpp"

namespace {

template <class T>
kernels::InputDropout<T> dropout_of(uint64_t key, uint32_t bound, double scale, const Maybe<int64_t>& nodes) {
    return {key, bound, T(scale), pointer(nodes)};
}

template <class T>
void dropout(In<T> x, uint64_t key, uint32_t bound, double scale, Maybe<int64_t> nodes, Out<T> y, int threads) {
    const auto task = dropout_of<T>(key, bound, scale, nodes);
    nb::gil_scoped_release released;
    kernels::drop(task, x.data(), y.data(), int64_t(x.shape(0)), int64_t(x.shape(1)), threads);
}

template <class T, class I>
void dropout_values(In<I> indptr, In<I> indices, In<int64_t> bounds, In<T> values, uint64_t key, uint32_t bound,
                    double scale, Maybe<int64_t> nodes, Out<T> out, int threads) {
    const auto task = dropout_of<T>(key, bound, scale, nodes);
    nb::gil_scoped_release released;
    kernels::drop_stored(task, view(indptr, indices), plan_of(bounds), values.data(), out.data(), threads);
}

struct Define {
    nb::module_& m;

    template <class T, class I>
    void operator()() {
        m.def("dropout_values", &dropout_values<T, I>, "indptr"_a, "indices"_a, "bounds"_a, "values"_a, "key"_a, "bound"_a,
              "scale"_a, "nodes"_a.none(), "out"_a, "threads"_a);
    }
};

template <class T>
void define(nb::module_& m) {
    m.def("dropout", &dropout<T>, "x"_a, "key"_a, "bound"_a, "scale"_a, "nodes"_a.none(), "y"_a, "threads"_a);
}

}  // namespace

void define_dropout(nb::module_& m) {
    define<float>(m);
    define<double>(m);
    for_each_type(Define{m});
}
