#include "aggregate/transpose.hpp"
#include "common/bindings.hpp"

namespace {

template <class I>
void transpose(In<I> indptr, In<I> indices, Out<I> turned_indptr, Out<I> turned_indices, Out<I> permutation,
               Out<I> inverse, int threads) {
    const int64_t columns = int64_t(turned_indptr.shape(0)) - 1;
    const kernels::Transposed<I> out{turned_indptr.data(), turned_indices.data(), permutation.data(), inverse.data()};
    const auto matrix = view(indptr, indices);
    nb::gil_scoped_release released;
    kernels::transpose(matrix, columns, out, threads);
}

template <class I>
void define(nb::module_& m) {
    m.def("transpose", &transpose<I>, "indptr"_a, "indices"_a, "turned_indptr"_a, "turned_indices"_a, "permutation"_a,
          "inverse"_a, "threads"_a);
}

}  // namespace

void define_transpose(nb::module_& m) {
    define<int32_t>(m);
    define<int64_t>(m);
}
