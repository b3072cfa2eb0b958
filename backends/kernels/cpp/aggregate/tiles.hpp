// Dense tiles of a sparse matrix, 32 rows by 32 columns, multiplied without indices (the block-sparse kernel of Hetu-GNN,
// algorithm 3, on vectors of a core). Tiles that the matrix's border cuts are stored whole, padded with zeros.
#pragma once
#include <algorithm>
#include <vector>

#include "common/dispatch.hpp"
#include "common/vector.hpp"

namespace kernels {

constexpr int64_t kTile = 32;
constexpr int kTileVectors = 4;                  // of a row of X in registers at once
constexpr int kTileRows = kGroup / kTileVectors;  // of a tile whose sums are in registers meanwhile
constexpr int64_t kTileRun = 4;  // tiles whose rows of X stay in the nearest cache for all rows of the block

template <class T>
struct TileTask {
    const int64_t* starts;   // [row blocks + 1]: where the tiles of 32 rows begin
    const int64_t* columns;  // [tiles]: first column of each
    const T* values;         // [tiles, 32, 32]
    const T* x;              // [inner, width]
    T* y;                    // [rows, width], added to
    int64_t blocks, rows, inner, width;
};

// One group of columns of X, for the tiles of one block of rows.
template <class T>
struct TileSums {
    using Function = void (*)(const TileTask<T>&, Columns, int64_t);

    // Add tiles from `first` to before `last` to R rows of their block, from r on.
    template <int N, int V, int R>
    static void add(const TileTask<T>& t, Columns columns, int64_t block, int64_t first, int64_t last, int64_t r) {
        T* y = t.y + (block * kTile + r) * t.width + columns.first;
        vecn<T, N> acc[R][V];
        for (int i = 0; i < R; ++i)
            for (int v = 0; v < V; ++v) acc[i][v] = load_pack<N>(y + i * t.width + column<N, V>(v, columns.width));
        for (int64_t tile = first; tile < last; ++tile) {
            const int64_t count = std::min(kTile, t.inner - t.columns[tile]);
            const T* value = t.values + (tile * kTile + r) * kTile;
            const T* x = t.x + t.columns[tile] * t.width + columns.first;
            for (int64_t c = 0; c < count; ++c, ++value, x += t.width) {
                vecn<T, N> row[V];
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) row[v] = load_pack<N>(x + column<N, V>(v, columns.width));
#pragma GCC unroll 4
                for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
                    for (int v = 0; v < V; ++v) acc[i][v] += value[i * kTile] * row[v];
            }
        }
        for (int i = 0; i < R; ++i)
            for (int v = 0; v < V; ++v) store_pack<N>(y + i * t.width + column<N, V>(v, columns.width), acc[i][v]);
    }

    template <int N, int V>
    static void run(const TileTask<T>& t, Columns columns, int64_t block) {
        const int64_t rows = std::min(kTile, t.rows - block * kTile), end = t.starts[block + 1];
        for (int64_t first = t.starts[block]; first < end; first += kTileRun) {
            const int64_t last = std::min(first + kTileRun, end);
            int64_t r = 0;
            for (; r + kTileRows <= rows; r += kTileRows) add<N, V, kTileRows>(t, columns, block, first, last, r);
            for (; r < rows; ++r) add<N, V, 1>(t, columns, block, first, last, r);
        }
    }

    template <int N, int V>
    Function pick() const {
        return &run<N, V>;
    }
};

// Y += tiles * X. A block's groups of columns are work of their own: few rows still keep many threads busy.
template <class T>
void add_tiles(const TileTask<T>& t, int threads) {
    const Cut<T, kTileVectors> cut(t.width);
    std::vector<int64_t> blocks;  // that have tiles
    for (int64_t block = 0; block < t.blocks; ++block)
        if (t.starts[block] < t.starts[block + 1]) blocks.push_back(block);
    const int64_t pieces = int64_t(blocks.size()) * cut.groups;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t piece = 0; piece < pieces; ++piece) {
        const Columns columns = cut.group(piece % cut.groups);
        choose<T, kTileVectors>(columns.width, TileSums<T>{})(t, columns, blocks[piece / cut.groups]);
    }
}

}  // namespace kernels
