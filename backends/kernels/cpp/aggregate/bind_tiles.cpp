#include "aggregate/tiles.hpp"
#include "common/bindings.hpp"

namespace {

template <class T>
void add_tiles(In<int64_t> starts, In<int64_t> columns, In<T> values, In<T> x, Out<T> y, int threads) {
    const kernels::TileTask<T> task{starts.data(), columns.data(), values.data(), x.data(), y.data(),
                                    int64_t(starts.shape(0)) - 1, int64_t(y.shape(0)), int64_t(x.shape(0)),
                                    int64_t(x.shape(1))};
    nb::gil_scoped_release released;
    kernels::add_tiles(task, threads);
}

}  // namespace

void define_tiles(nb::module_& m) {
    m.def("add_tiles", &add_tiles<float>, "starts"_a, "columns"_a, "values"_a, "x"_a, "y"_a, "threads"_a);
    m.def("add_tiles", &add_tiles<double>, "starts"_a, "columns"_a, "values"_a, "x"_a, "y"_a, "threads"_a);
}
