#include <memory>

#include "common/bindings_mask.hpp"
#include "dense/epilogue.hpp"

namespace {

template <class T>
void bias_activation(In<T> x, In<T> bias, int kind, std::optional<Mask> mask, Out<T> y, int threads) {
    const auto dropout = dropout_of<T>(mask);
    nb::gil_scoped_release released;
    kernels::bias_activation(x.data(), bias.data(), kernels::Activation(kind), pointer(dropout), y.data(),
                             int64_t(x.shape(0)), int64_t(x.shape(1)), threads);
}

template <class T>
void bias_activation_backward(In<T> grad_y, Maybe<T> y, Maybe<T> bias, int kind, std::optional<Mask> mask,
                              std::optional<Out<T>> grad_x, std::optional<Out<T>> inner,
                              std::optional<Out<T>> grad_bias, int threads) {
    const auto dropout = dropout_of<T>(mask);
    const int64_t rows = grad_y.shape(0), width = grad_y.shape(1), heads = inner ? inner->shape(1) : 1;
    const kernels::EpilogueGradient<T> task{grad_y.data(), pointer(y), pointer(bias), grad_x ? grad_x->data() : nullptr,
                                            inner ? inner->data() : nullptr, heads, width / heads,
                                            kernels::Activation(kind), pointer(dropout)};
    const std::unique_ptr<T[]> partial(new T[kernels::partials_of(rows) * width]);
    nb::gil_scoped_release released;
    kernels::bias_activation_backward(task, partial.get(), grad_bias ? grad_bias->data() : nullptr, rows, threads);
}

// out [rows, heads] = inner products of rows of a and b [rows, heads, width].
template <class T>
void row_products(In<T> a, In<T> b, Out<T> out, int threads) {
    const int64_t rows = out.size(), width = a.shape(2);
    nb::gil_scoped_release released;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; ++row)
        out.data()[row] = kernels::inner(a.data() + row * width, b.data() + row * width, width);
}

template <class T>
void define(nb::module_& m) {
    m.def("bias_activation", &bias_activation<T>, "x"_a, "bias"_a, "kind"_a, "mask"_a.none(), "y"_a, "threads"_a);
    m.def("bias_activation_backward", &bias_activation_backward<T>, "grad_y"_a, "y"_a.none(), "bias"_a.none(), "kind"_a,
          "mask"_a.none(), "grad_x"_a.none(), "inner"_a.none(), "grad_bias"_a.none(), "threads"_a);
    m.def("row_products", &row_products<T>, "a"_a, "b"_a, "out"_a, "threads"_a);
}

}  // namespace

void define_epilogue(nb::module_& m) {
    define<float>(m);
    define<double>(m);
}
