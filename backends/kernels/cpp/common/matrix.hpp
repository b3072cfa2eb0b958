// A sparse matrix as the kernels see it, and how its rows are shared out among threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace kernels {

constexpr int64_t kHubSegment = 1 << 15;  // edges of one partial sum of a hub; fixed, so that threads change no result

template <class I>
struct CsrView {
    const I* indptr;
    const I* indices;
    int64_t rows;

    int64_t edges() const { return indptr[rows]; }
};

// Cut the rows into parts of about equal edges, [parts + 1].
template <class I>
std::vector<int64_t> cut_rows(const CsrView<I>& a, int parts) {
    std::vector<int64_t> cuts(parts + 1);
    for (int part = 0; part < parts; ++part)
        cuts[part] = std::lower_bound(a.indptr, a.indptr + a.rows, I(a.edges() / parts * part)) - a.indptr;
    cuts[parts] = a.rows;
    return cuts;
}

// Pieces of consecutive rows of about equal work, and the hubs: rows with more than kHubSegment edges, which are split.
struct RowPlan {
    const int64_t* bounds;  // [chunks + 1]
    int64_t chunks;
    const int64_t* hubs;
    int64_t hub_count;
};

}  // namespace kernels
