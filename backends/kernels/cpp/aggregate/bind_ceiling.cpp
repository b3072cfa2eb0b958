#include "aggregate/ceiling.hpp"
#include "common/bindings.hpp"

namespace {

double gather_rows(In<float> table, In<int32_t> indices, int64_t ahead, int64_t block, int threads) {
    nb::gil_scoped_release released;
    const int64_t count = int64_t(indices.shape(0)), width = int64_t(table.shape(1));
    return kernels::gather_rows({table.data(), indices.data(), count, width, ahead}, block, threads);
}

double read_stream(In<float> from, int threads) {
    nb::gil_scoped_release released;
    return kernels::read_stream(from.data(), int64_t(from.size()), threads);
}

void triad(Out<float> a, In<float> b, In<float> c, float scale, int threads) {
    nb::gil_scoped_release released;
    kernels::triad(a.data(), b.data(), c.data(), scale, int64_t(a.size()), threads);
}

}  // namespace

void define_ceiling(nb::module_& m) {
    m.def("gather_rows", &gather_rows, "table"_a, "indices"_a, "ahead"_a, "block"_a, "threads"_a);
    m.def("read_stream", &read_stream, "source"_a, "threads"_a);
    m.def("triad", &triad, "a"_a, "b"_a, "c"_a, "scale"_a, "threads"_a);
    m.attr("lanes") = kernels::lanes<float>;
}
