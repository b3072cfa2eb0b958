#include "common/bindings.hpp"
#include "dense/loss.hpp"

namespace {

template <class T>
void binary_cross_entropy(In<T> logits, In<T> targets, Maybe<T> share, T constant, Out<T> gradient, Out<T> value,
                          int threads) {
    nb::gil_scoped_release released;
    *value.data() = T(kernels::binary_cross_entropy(logits.data(), targets.data(), pointer(share), constant,
                                                    gradient.data(), int64_t(logits.size()), threads));
}

template <class T>
void cross_entropy(In<T> logits, In<int64_t> labels, Out<T> gradient, Out<T> value, int threads) {
    nb::gil_scoped_release released;
    *value.data() = T(kernels::cross_entropy(logits.data(), labels.data(), gradient.data(), int64_t(logits.shape(0)),
                                             int64_t(logits.shape(1)), threads));
}

template <class T>
void define(nb::module_& m) {
    m.def("cross_entropy", &cross_entropy<T>, "logits"_a, "labels"_a, "gradient"_a, "value"_a, "threads"_a);
    m.def("binary_cross_entropy", &binary_cross_entropy<T>, "logits"_a, "targets"_a, "share"_a.none(), "constant"_a,
          "gradient"_a, "value"_a, "threads"_a);
}

}  // namespace

void define_loss(nb::module_& m) {
    define<float>(m);
    define<double>(m);
}
