#include "common/bindings.hpp"
#include "dense/adam.hpp"

namespace {

template <class T>
void adam(Out<T> parameter, In<T> gradient, Out<T> mean, Out<T> square, double decay, double first, double second,
          double rate, double inverse_root, double epsilon, int threads) {
    const kernels::AdamRates<T> rates{T(decay), T(first), T(second), T(rate), T(inverse_root), T(epsilon)};
    nb::gil_scoped_release released;
    kernels::adam(parameter.data(), gradient.data(), mean.data(), square.data(), rates, int64_t(parameter.size()),
                  threads);
}

template <class T>
void define(nb::module_& m) {
    m.def("adam", &adam<T>, "parameter"_a, "gradient"_a, "mean"_a, "square"_a, "decay"_a, "first"_a, "second"_a,
          "rate"_a, "inverse_root"_a, "epsilon"_a, "threads"_a);
}

}  // namespace

void define_adam(nb::module_& m) {
    define<float>(m);
    define<double>(m);
}
