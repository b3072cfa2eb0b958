// A heap of nodes whose keys may change: each node is in it at most once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace kernels {

// The node of the largest key first, of equal keys the smallest node.
class NodeHeap {
  public:
    explicit NodeHeap(int64_t nodes) : entries_(nodes) {}

    bool empty() const { return heap_.empty(); }
    int32_t top() const { return heap_.front(); }
    bool contains(int64_t node) const { return entries_[node].place >= 0; }
    bool retired(int64_t node) const { return entries_[node].place == kRetired; }
    int64_t key(int64_t node) const { return entries_[node].key; }
    void prefetch(int64_t node) const { __builtin_prefetch(&entries_[node], 1); }

    // Put a node in, or change its key.
    void set(int32_t node, int64_t key) {
        const bool rises = !contains(node) || key > entries_[node].key;
        entries_[node].key = key;
        if (!contains(node)) entries_[node].place = int32_t(heap_.size()), heap_.push_back(node);
        if (rises)
            rise(entries_[node].place);
        else
            sink(entries_[node].place);
    }

    void remove(int32_t node) { take_out(node, kAbsent); }

    // Remove a node that is not put in again.
    void retire(int32_t node) { take_out(node, kRetired); }

  private:
    static constexpr int32_t kAbsent = -1, kRetired = -2, kChildren = 4;

    struct Entry {
        int64_t key = 0;
        int32_t place = kAbsent;
    };

    bool before(int32_t a, int32_t b) const {
        return entries_[a].key > entries_[b].key || (entries_[a].key == entries_[b].key && a < b);
    }

    void put(int32_t place, int32_t node) { heap_[place] = node, entries_[node].place = place; }

    void take_out(int32_t node, int32_t mark) {
        const int32_t place = entries_[node].place, last = heap_.back();
        heap_.pop_back(), entries_[node].place = mark;
        if (last == node) return;
        put(place, last), rise(place), sink(entries_[last].place);
    }

    void rise(int32_t place) {
        const int32_t node = heap_[place];
        for (int32_t parent; place > 0; place = parent) {
            parent = (place - 1) / kChildren;
            if (!before(node, heap_[parent])) break;
            put(place, heap_[parent]);
        }
        put(place, node);
    }

    void sink(int32_t place) {
        const int32_t node = heap_[place];
        for (;;) {
            const int64_t first = int64_t(place) * kChildren + 1;
            const int64_t last = std::min(first + kChildren, int64_t(heap_.size()));
            if (first >= last) break;
            int32_t best = int32_t(first);
            for (int32_t child = best + 1; child < last; ++child)
                if (before(heap_[child], heap_[best])) best = child;
            if (!before(heap_[best], node)) break;
            put(place, heap_[best]);
            place = best;
        }
        put(place, node);
    }

    std::vector<int32_t> heap_;
    std::vector<Entry> entries_;
};

}  // namespace kernels
