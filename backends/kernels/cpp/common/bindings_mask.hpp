// A mask of dropout as Python gives it: a tuple of key, bound, scale and the rows' numbers or None.
#pragma once
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "common/bindings.hpp"
#include "common/mask.hpp"

using Mask = std::tuple<uint64_t, uint32_t, double, Maybe<int64_t>>;

template <class T>
kernels::Dropout<T> dropout_of(const Mask& mask) {
    const auto& [key, bound, scale, numbers] = mask;
    return {key, bound, T(scale), pointer(numbers)};
}

template <class T>
std::optional<kernels::Dropout<T>> dropout_of(const std::optional<Mask>& mask) {
    return mask ? std::optional(dropout_of<T>(*mask)) : std::nullopt;
}

template <class T>
const kernels::Dropout<T>* pointer(const std::optional<kernels::Dropout<T>>& dropout) {
    return dropout ? &*dropout : nullptr;
}
