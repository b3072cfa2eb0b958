// Counting sort by several threads: from each part's counts to where each part writes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace kernels {

// Where each of `parts` equal shares of `count` begins, and the end of the last.
inline std::vector<int64_t> equal_shares(int64_t count, int parts) {
    std::vector<int64_t> cuts(parts + 1);
    for (int part = 0; part <= parts; ++part) cuts[part] = count / parts * part + count % parts * part / parts;
    return cuts;
}

// Counts of each part, [parts][columns]. The memory is taken by the caller, as want of it is an exception that no thread
// of a parallel region may let out, and written first by the thread that clears it.
template <class I>
class Counts {
  public:
    Counts(int parts, int64_t columns) : columns_(columns), memory_(parts) {
        for (auto& own : memory_) own.reset(new I[columns]), rows_.push_back(own.get());
    }
    I* clear(int64_t part) { return std::fill_n(rows_[part], columns_, I(0)), rows_[part]; }
    const std::vector<I*>& rows() const { return rows_; }

  private:
    int64_t columns_;
    std::vector<std::unique_ptr<I[]>> memory_;
    std::vector<I*> rows_;
};

// Turn each part's counts of the edges of a column into where its first one goes, and write the columns' starts.
template <class I>
void place_columns(const std::vector<I*>& at, int64_t columns, I* indptr, int threads) {
    const std::vector<int64_t> slices = equal_shares(columns, threads);
    std::vector<I> before(threads + 1);  // edges of the slices before each
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static, 1)
        for (int slice = 0; slice < threads; ++slice) {
            I sum = 0;
            for (const I* counts : at)
                for (int64_t c = slices[slice]; c < slices[slice + 1]; ++c) sum += counts[c];
            before[slice + 1] = sum;
        }
#pragma omp single
        for (int slice = 0; slice < threads; ++slice) before[slice + 1] += before[slice];
#pragma omp for schedule(static, 1)
        for (int slice = 0; slice < threads; ++slice) {
            I sum = before[slice];
            for (int64_t c = slices[slice]; c < slices[slice + 1]; ++c) {
                indptr[c] = sum;
                for (I* next : at) sum += std::exchange(next[c], sum);
            }
        }
    }
    indptr[columns] = before[threads];
}

}  // namespace kernels
