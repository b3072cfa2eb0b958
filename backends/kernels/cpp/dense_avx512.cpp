// The dense layers on vectors of 64 bytes; its own file because its own instructions must not leak into others.
#ifdef __AVX512F__
#include "dense.hpp"

namespace kernels {
template void dense_forward<float, 64>(const DenseTask<float>&, int);
template void dense_backward<float, 64>(const DenseTask<float>&, float*, int);
template void dense_forward<double, 64>(const DenseTask<double>&, int);
template void dense_backward<double, 64>(const DenseTask<double>&, double*, int);
}  // namespace kernels
#endif
