// The edges of all hubs in segments of one size, which threads share whatever hub they belong to.
#pragma once
#include <algorithm>
#include <vector>

#include "common/matrix.hpp"

namespace kernels {

// Edges [begin, end) of a row, which is the plan's hub number `hub`.
struct HubSegment {
    int64_t hub, row, begin, end;
};

// Segments are in the order of the hubs and of their edges.
template <class I>
class HubSegments {
  public:
    HubSegments(const I* indptr, const RowPlan& plan) : indptr_(indptr), hubs_(plan.hubs), starts_(plan.hub_count + 1) {
        for (int64_t hub = 0; hub < plan.hub_count; ++hub) {
            const int64_t edges = indptr[row(hub) + 1] - indptr[row(hub)];
            starts_[hub + 1] = starts_[hub] + (edges + kHubSegment - 1) / kHubSegment;
        }
    }

    int64_t count() const { return starts_.back(); }
    int64_t row(int64_t hub) const { return hubs_[hub]; }
    int64_t first_of(int64_t hub) const { return starts_[hub]; }

    HubSegment operator[](int64_t segment) const {
        const int64_t hub = std::upper_bound(starts_.begin(), starts_.end(), segment) - starts_.begin() - 1;
        const int64_t begin = indptr_[row(hub)] + (segment - starts_[hub]) * kHubSegment;
        return {hub, row(hub), begin, std::min<int64_t>(begin + kHubSegment, indptr_[row(hub) + 1])};
    }

    // Join the values [segments, width] of a hub in their order into those of its first segment, which are returned.
    template <class T, class Join>
    T* joined(std::vector<T>& values, int64_t width, int64_t hub, Join join) const {
        T* result = values.data() + starts_[hub] * width;
        for (int64_t segment = starts_[hub] + 1; segment < starts_[hub + 1]; ++segment)
            for (int64_t c = 0; c < width; ++c) result[c] = join(result[c], values[segment * width + c]);
        return result;
    }

    template <class T>
    T* summed(std::vector<T>& values, int64_t width, int64_t hub) const {
        return joined(values, width, hub, [](T a, T b) { return a + b; });
    }

  private:
    const I* indptr_;
    const int64_t* hubs_;
    std::vector<int64_t> starts_;  // [hubs + 1]: each hub's first segment
};

}  // namespace kernels
