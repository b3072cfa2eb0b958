// A count known when running becomes one known when compiling, so that a group of vectors lives in registers.
#pragma once
#include <cstdint>

namespace kernels {

// Call `call.operator()<V>()` with V = count, which is 1 to Most.
template <int Most, class Call>
inline void with_vectors(int64_t count, Call call) {
    if constexpr (Most > 1)
        if (count < Most) return with_vectors<Most - 1>(count, call);
    call.template operator()<Most>();
}

}  // namespace kernels
