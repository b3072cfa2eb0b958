#include "bind.hpp"
#include "rows.hpp"

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

}  // namespace

void define_rows(nb::module_& m) {
    for_each_type([&]<class T, class I>() {
        m.def("copy_rows", &copy_rows<T, I>, "indptr"_a.noconvert(), "indices"_a.noconvert(),
              "weight"_a.noconvert().none(), "rows"_a.noconvert(), "starts"_a.noconvert(), "out"_a.noconvert(),
              "out_weight"_a.noconvert().none(), "threads"_a);
    });
    m.def("count_distinct", &count_distinct<int32_t>, "indices"_a.noconvert(), "columns"_a, "threads"_a);
    m.def("count_distinct", &count_distinct<int64_t>, "indices"_a.noconvert(), "columns"_a, "threads"_a);
}
