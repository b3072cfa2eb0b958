// Shared by all bindings: array types, views of matrices and row plans, results handed over to numpy.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <utility>

#include "common/buffer.hpp"
#include "common/matrix.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// An array that is read or written where it lies. Nanobind would copy one of another type or layout without a word, which
// narrows numbers and loses what is written; here it is a TypeError, also inside of tuples and lists.
template <class Array>
struct InPlace : Array {
    using Array::Array;
    InPlace(Array&& array) : Array(std::move(array)) {}
};

template <class Array>
struct nb::detail::type_caster<InPlace<Array>> {
    NB_TYPE_CASTER(InPlace<Array>, make_caster<Array>::Name)

    template <class Flags>
    bool from_python(handle source, Flags flags, cleanup_list* cleanup) noexcept {
        make_caster<Array> caster;
        if (!caster.from_python(source, Flags(flags & ~Flags(cast_flags::convert)), cleanup)) return false;
        value = std::move(caster.value);
        return true;
    }
};

template <class T>
using In = InPlace<nb::ndarray<const T, nb::c_contig, nb::device::cpu>>;
template <class T>
using Out = InPlace<nb::ndarray<T, nb::c_contig, nb::device::cpu>>;
template <class T>
using Maybe = std::optional<In<T>>;

template <class T>
const T* pointer(const Maybe<T>& array) {
    return array ? array->data() : nullptr;
}

// Hand a buffer's memory over to numpy.
template <class T>
nb::object to_numpy(kernels::Buffer<T>& buffer) {
    const size_t shape[1] = {size_t(buffer.size())};
    T* data = buffer.release();
    nb::capsule owner(data, [](void* memory) noexcept { std::free(memory); });
    return nb::cast(nb::ndarray<nb::numpy, T>(data, 1, shape, owner));
}

inline kernels::RowPlan plan_of(const In<int64_t>& bounds) {
    return {bounds.data(), int64_t(bounds.shape(0)) - 1, nullptr, 0};
}

inline kernels::RowPlan plan_of(const In<int64_t>& bounds, const In<int64_t>& hubs) {
    return {bounds.data(), int64_t(bounds.shape(0)) - 1, hubs.data(), int64_t(hubs.shape(0))};
}

template <class I>
kernels::CsrView<I> view(const In<I>& indptr, const In<I>& indices) {
    return {indptr.data(), indices.data(), int64_t(indptr.shape(0)) - 1};
}

// Call `define.template operator()<T, I>()` for each type of value and of index that a kernel takes.
template <class Define>
void for_each_type(Define define) {
    define.template operator()<float, int32_t>();
    define.template operator()<float, int64_t>();
    define.template operator()<double, int32_t>();
    define.template operator()<double, int64_t>();
}

// Each is defined in the bind_<subject>.cpp beside what it binds.
void define_adam(nb::module_& m);
void define_dense(nb::module_& m);
void define_dropout(nb::module_& m);
void define_epilogue(nb::module_& m);
void define_ceiling(nb::module_& m);
void define_gat(nb::module_& m);
void define_graphfeature(nb::module_& m);
void define_loss(nb::module_& m);
void define_maximum(nb::module_& m);
void define_neighbourhood(nb::module_& m);
void define_parquet(nb::module_& m);
void define_partition(nb::module_& m);
void define_rows(nb::module_& m);
void define_sddmm(nb::module_& m);
void define_softmax(nb::module_& m);
void define_spmm(nb::module_& m);
void define_tiles(nb::module_& m);
void define_transpose(nb::module_& m);
