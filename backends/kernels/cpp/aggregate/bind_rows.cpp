#include "aggregate/rows.hpp"
#include "common/bindings.hpp"

namespace {

template <class T, class I>
void copy_rows(In<I> indptr, In<I> indices, Maybe<T> weight, In<int64_t> rows, In<I> starts, Out<I> out,
               std::optional<Out<T>> out_weight, int threads) {
    const auto matrix = view(indptr, indices);
    const int64_t count = int64_t(rows.shape(0));
    nb::gil_scoped_release released;
    kernels::copy_rows(matrix, pointer(weight), rows.data(), starts.data(), count, out.data(),
                       out_weight ? out_weight->data() : nullptr, threads);
}

template <class I>
int64_t count_distinct(In<I> indices, int64_t columns, int threads) {
    nb::gil_scoped_release released;
    return kernels::count_distinct(indices.data(), int64_t(indices.shape(0)), columns, threads);
}

template <class I>
bool is_matrix(In<I> indptr, In<I> indices, int64_t columns, int threads) {
    const auto matrix = view(indptr, indices);
    const int64_t edges = int64_t(indices.shape(0));
    nb::gil_scoped_release released;
    return kernels::is_matrix(matrix, edges, columns, threads);
}

template <class I>
void cut_pieces(In<I> indptr, int64_t row_cost, Out<int64_t> bounds) {
    kernels::cut_pieces(indptr.data(), int64_t(indptr.shape(0)) - 1, row_cost, int64_t(bounds.shape(0)) - 1,
                        bounds.data());
}

template <class T>
void spread_rows(In<T> x, Maybe<T> scale, In<int64_t> rows, Out<T> out, int threads) {
    nb::gil_scoped_release released;
    kernels::spread_rows(x.data(), pointer(scale), rows.data(), int64_t(x.shape(0)), int64_t(x.shape(1)),
                         int64_t(out.shape(0)), out.data(), threads);
}

template <class T>
void add_rows(In<T> x, In<int64_t> rows, Out<T> out, int threads) {
    nb::gil_scoped_release released;
    kernels::add_rows(x.data(), rows.data(), int64_t(x.shape(0)), int64_t(x.shape(1)), out.data(), threads);
}

template <class I>
void define_layout(nb::module_& m) {
    m.def("count_distinct", &count_distinct<I>, "indices"_a, "columns"_a, "threads"_a);
    m.def("is_matrix", &is_matrix<I>, "indptr"_a, "indices"_a, "columns"_a, "threads"_a);
    m.def("cut_pieces", &cut_pieces<I>, "indptr"_a, "row_cost"_a, "bounds"_a);
}

template <class T>
void define_spreading(nb::module_& m) {
    m.def("spread_rows", &spread_rows<T>, "x"_a, "scale"_a.none(), "rows"_a, "out"_a, "threads"_a);
    m.def("add_rows", &add_rows<T>, "x"_a, "rows"_a, "out"_a, "threads"_a);
}

}  // namespace

void define_rows(nb::module_& m) {
    for_each_type([&]<class T, class I>() {
        m.def("copy_rows", &copy_rows<T, I>, "indptr"_a, "indices"_a, "weight"_a.none(), "rows"_a, "starts"_a,
              "out"_a, "out_weight"_a.none(), "threads"_a);
    });
    define_layout<int32_t>(m);
    define_layout<int64_t>(m);
    define_spreading<float>(m);
    define_spreading<double>(m);
}
