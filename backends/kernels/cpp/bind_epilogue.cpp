#include <memory>

#include "bind.hpp"
#include "epilogue.hpp"

namespace {

template <class T>
void bias_activation(In<T> x, In<T> bias, int kind, Out<T> y, int threads) {
    nb::gil_scoped_release released;
    kernels::bias_activation(x.data(), bias.data(), kernels::Activation(kind), y.data(), int64_t(x.shape(0)),
                             int64_t(x.shape(1)), threads);
}

template <class T>
void bias_activation_backward(In<T> grad_y, In<T> y, int kind, Out<T> grad_x, Out<T> grad_bias, int threads) {
    const int64_t rows = y.shape(0), width = y.shape(1);
    const std::unique_ptr<T[]> partial(new T[kernels::partials_of(rows) * width]);
    nb::gil_scoped_release released;
    kernels::bias_activation_backward(grad_y.data(), y.data(), kernels::Activation(kind), grad_x.data(), partial.get(),
                                      grad_bias.data(), rows, width, threads);
}

template <class T>
void define(nb::module_& m) {
    m.def("bias_activation", &bias_activation<T>, "x"_a, "bias"_a, "kind"_a, "y"_a, "threads"_a);
    m.def("bias_activation_backward", &bias_activation_backward<T>, "grad_y"_a, "y"_a, "kind"_a, "grad_x"_a,
          "grad_bias"_a, "threads"_a);
}

}  // namespace

void define_epilogue(nb::module_& m) {
    define<float>(m);
    define<double>(m);
}
