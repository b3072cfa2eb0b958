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
void bias_activation_backward(In<T> grad_y, Maybe<T> y, int kind, std::optional<Mask> mask,
                              std::optional<Out<T>> grad_x, std::optional<Out<T>> grad_bias, int threads) {
    const auto dropout = dropout_of<T>(mask);
    const int64_t rows = grad_y.shape(0), width = grad_y.shape(1);
    const kernels::EpilogueGradient<T> task{grad_y.data(), pointer(y), grad_x ? grad_x->data() : nullptr, width,
                                            kernels::Activation(kind), pointer(dropout)};
    const std::unique_ptr<T[]> partial(new T[kernels::partials_of(rows) * width]);
    nb::gil_scoped_release released;
    kernels::bias_activation_backward(task, partial.get(), grad_bias ? grad_bias->data() : nullptr, rows, threads);
}

template <class T>
void define(nb::module_& m) {
    m.def("bias_activation", &bias_activation<T>, "x"_a, "bias"_a, "kind"_a, "mask"_a.none(), "y"_a, "threads"_a);
    m.def("bias_activation_backward", &bias_activation_backward<T>, "grad_y"_a, "y"_a.none(), "kind"_a,
          "mask"_a.none(), "grad_x"_a.none(), "grad_bias"_a.none(), "threads"_a);
}

}  // namespace

void define_epilogue(nb::module_& m) {
    define<float>(m);
    define<double>(m);
}
