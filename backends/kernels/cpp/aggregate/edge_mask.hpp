// Which heads of a block's edges attention dropout retains.
#pragma once
#include <vector>

#include "aggregate/edge_scores.hpp"
#include "common/mask.hpp"

namespace kernels {

// The mask of a block of at most `edges` edges; H is the number of heads, 0 for any.
template <class T, int H>
class EdgeMask {
  public:
    EdgeMask(const Dropout<T>& dropout_, int64_t heads_, int64_t edges) : dropout(dropout_), heads{heads_} {
        if (!drops()) return;
        words.resize(edges);
        for (auto* buffer : {&steps, &first, &second}) buffer->resize(edges * heads + lanes<T>);
        for (int64_t i = 0; i < edges * heads; ++i) steps[i] = uint32_t(i % heads) * kColumnStep;
    }

    bool drops() const { return dropout.bound != 0; }

    // Draw for `count` edges; position(e) is the e-th edge's in the forward order.
    template <class Position>
    void draw(int64_t count, Position position) {
        for (int64_t e = 0; e < count; ++e) {
            const int64_t at = position(e);
            words[e] = uint64_t(dropout.numbers == nullptr ? at : dropout.numbers[at]);
        }
        for (int64_t e = 0; e < count; ++e) words[e] = keyed(dropout.key, int64_t(words[e]));
        for (int64_t e = 0, i = 0; e < count; ++e)
            for (int64_t h = 0; h < heads; ++h, ++i) first[i] = uint32_t(words[e]), second[i] = uint32_t(words[e] >> 32);
    }

    // Multiply the block's values [count, heads] by 0 or the scale.
    void apply(T* values, int64_t count) const {
        using Words = typename Lanes<lanes<T>>::words;
        for (int64_t i = 0; i < count * heads; i += lanes<T>) {
            const Words keys[2] = {load_words<Words>(&first[i]), load_words<Words>(&second[i])};
            const Words drawn = words_of(load_words<Words>(&steps[i]), keys[0], keys[1]);
            store(values + i, retained<T, lanes<T>>(load(values + i), drawn, dropout));
        }
    }

  private:
    const Dropout<T> dropout;
    const Heads<H> heads;
    std::vector<uint64_t> words;
    std::vector<uint32_t> steps, first, second;  // columns times kColumnStep, and keys
};

}  // namespace kernels
