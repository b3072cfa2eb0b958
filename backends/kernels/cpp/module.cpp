// The extension's entry: each subject adds its own functions.
#include "common/bindings.hpp"

NB_MODULE(KERNELS_MODULE, m) {
    m.attr("sources") = KERNELS_SOURCES;
    define_adam(m);
    define_spmm(m);
    define_tiles(m);
    define_gat(m);
    define_graphfeature(m);
    define_parquet(m);
    define_loss(m);
    define_maximum(m);
    define_sddmm(m);
    define_softmax(m);
    define_neighbourhood(m);
    define_dense(m);
    define_dropout(m);
    define_epilogue(m);
    define_ceiling(m);
    define_transpose(m);
    define_rows(m);
    define_partition(m);
}
