#include "common/bindings_mask.hpp"
#include "dense/dropout.hpp"

namespace {

template <class T>
void dropout(In<T> x, const Mask& mask, Out<T> y, int threads) {
    const auto task = dropout_of<T>(mask);
    nb::gil_scoped_release released;
    kernels::drop(task, x.data(), y.data(), int64_t(x.shape(0)), int64_t(x.shape(1)), threads);
}

template <class T, class I>
void dropout_values(In<I> indptr, In<I> indices, In<T> values, const Mask& mask, Out<T> out, int threads) {
    const auto task = dropout_of<T>(mask);
    nb::gil_scoped_release released;
    kernels::drop_stored(task, view(indptr, indices), values.data(), out.data(), threads);
}

template <class T, class I>
void dropout_columns(In<I> indptr, In<I> indices, In<T> values, int64_t nodes, const Mask& mask, Out<T> out,
                     int threads) {
    const auto task = dropout_of<T>(mask);
    nb::gil_scoped_release released;
    kernels::drop_columns(task, view(indptr, indices), nodes, values.data(), out.data(), threads);
}

struct Define {
    nb::module_& m;

    template <class T, class I>
    void operator()() {
        m.def("dropout_values", &dropout_values<T, I>, "indptr"_a, "indices"_a, "values"_a, "mask"_a, "out"_a,
              "threads"_a);
        m.def("dropout_columns", &dropout_columns<T, I>, "indptr"_a, "indices"_a, "values"_a, "nodes"_a, "mask"_a,
              "out"_a, "threads"_a);
    }
};

template <class T>
void define(nb::module_& m) {
    m.def("dropout", &dropout<T>, "x"_a, "mask"_a, "y"_a, "threads"_a);
}

}  // namespace

void define_dropout(nb::module_& m) {
    define<float>(m);
    define<double>(m);
    for_each_type(Define{m});
}
