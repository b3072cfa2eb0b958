// From a count known at run time to one known at compile time, so that a group of vectors stays in registers.
#pragma once
#include <cstdint>

#include "common/vector.hpp"

namespace kernels {

// Return `call.operator()<V>()` with V = count, which is 1 to Most.
template <int Most, class Call>
inline auto with_vectors(int64_t count, Call call) {
    if constexpr (Most > 1)
        if (count < Most) return with_vectors<Most - 1>(count, call);
    return call.template operator()<Most>();
}

// Return chooser.pick<N, V>() for one or two vectors of at most Most lanes that cover a row narrower than a vector.
template <int Most, class Chooser>
auto choose_narrow(int64_t width, const Chooser& chooser) {
    if constexpr (Most > 1) {
        if (width < Most) return choose_narrow<Most / 2>(width, chooser);
        if (width > Most) return chooser.template pick<Most, 2>();
    }
    return chooser.template pick<Most, 1>();
}

// Return chooser.pick<N, V>() for the vectors, at most Most, that cover a group's columns.
template <class T, int Most = kGroup, class Chooser>
auto choose(int64_t width, const Chooser& chooser) {
    constexpr int full = lanes<T>;
    if (width < full) return choose_narrow<full / 2>(width, chooser);
    return with_vectors<Most>((width + full - 1) / full, [&]<int V>() { return chooser.template pick<full, V>(); });
}

}  // namespace kernels
