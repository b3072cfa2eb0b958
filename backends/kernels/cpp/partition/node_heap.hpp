// A heap of nodes whose keys may change: each node is in it at most once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace kernels {

// The node of the largest key first, of equal keys the smallest node. Keys lie in the heap, so that a comparison reads
// no other memory.
class NodeHeap {
  public:
    explicit NodeHeap(int64_t nodes) : places_(nodes, kAbsent) {}

    bool empty() const { return heap_.empty(); }
    int64_t size() const { return int64_t(heap_.size()); }
    int32_t top() const { return heap_.front().node; }
    bool contains(int64_t node) const { return places_[node] >= 0; }
    bool retired(int64_t node) const { return places_[node] == kRetired; }
    int64_t key(int64_t node) const { return heap_[places_[node]].key; }
    void prefetch(int64_t node) const { __builtin_prefetch(&places_[node], 1); }

    // Put a node in, or change its key.
    void set(int32_t node, int64_t key) {
        const Entry entry{key, node};
        if (!contains(node)) {
            heap_.push_back(entry);
            rise(int32_t(heap_.size()) - 1, entry);
        } else if (entry.before(heap_[places_[node]])) {
            rise(places_[node], entry);
        } else {
            sink(places_[node], entry);
        }
    }

    void remove(int32_t node) { take_out(node, kAbsent); }

    // Remove a node that is not put in again.
    void retire(int32_t node) { take_out(node, kRetired); }

  private:
    static constexpr int32_t kAbsent = -1, kRetired = -2, kChildren = 4;

    struct Entry {
        int64_t key;
        int32_t node;

        bool before(const Entry& other) const { return key > other.key || (key == other.key && node < other.node); }
    };

    void put(int32_t place, const Entry& entry) { heap_[place] = entry, places_[entry.node] = place; }

    void take_out(int32_t node, int32_t mark) {
        const int32_t place = places_[node];
        const Entry last = heap_.back();
        heap_.pop_back(), places_[node] = mark;
        if (last.node == node) return;
        if (place > 0 && last.before(heap_[(place - 1) / kChildren]))
            rise(place, last);
        else
            sink(place, last);
    }

    // Put an entry at a place or above.
    void rise(int32_t place, const Entry entry) {
        for (int32_t parent; place > 0; place = parent) {
            parent = (place - 1) / kChildren;
            if (!entry.before(heap_[parent])) break;
            put(place, heap_[parent]);
        }
        put(place, entry);
    }

    // Put an entry at a place or below.
    void sink(int32_t place, const Entry entry) {
        for (;;) {
            const int64_t first = int64_t(place) * kChildren + 1;
            const int64_t last = std::min(first + kChildren, int64_t(heap_.size()));
            if (first >= last) break;
            int32_t best = int32_t(first);
            for (int32_t child = best + 1; child < last; ++child)
                if (heap_[child].before(heap_[best])) best = child;
            if (!heap_[best].before(entry)) break;
            put(place, heap_[best]);
            place = best;
        }
        put(place, entry);
    }

    std::vector<Entry> heap_;
    std::vector<int32_t> places_;  // of each node in the heap, or a mark
};

}  // namespace kernels
