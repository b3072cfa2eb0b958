#include <cstdlib>
#include <memory>

#include "common/bindings_mask.hpp"
#include "dense/dense.hpp"
#include "dense/thin.hpp"

namespace {

template <class T>
using MaybeOut = std::optional<Out<T>>;

// Uninitialized memory, aligned to a cache line.
template <class T>
class Scratch {
  public:
    explicit Scratch(int64_t count)
        : memory_(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64)), &std::free) {
        if (memory_ == nullptr) throw std::bad_alloc();
    }
    T* data() const { return memory_.get(); }

  private:
    std::unique_ptr<T, decltype(&std::free)> memory_;
};

template <class T>
kernels::Scores<T> scores_of(const In<T>& att_src, const In<T>& att_dst) {
    kernels::Scores<T> scores{};
    scores.heads = att_src.shape(0), scores.width = att_src.shape(1);
    scores.att[0] = att_src.data(), scores.att[1] = att_dst.data();
    return scores;
}

template <class T>
void dense_forward(In<T> x, In<T> w, Maybe<T> other_x, Maybe<T> other_w, Maybe<T> bias, bool relu,
                   std::optional<Mask> mask, Out<T> y, Maybe<T> att_src, Maybe<T> att_dst, MaybeOut<T> score_src,
                   MaybeOut<T> score_dst, int threads) {
    const auto dropout = dropout_of<T>(mask);
    kernels::DenseTask<T> task{};
    task.rows = x.shape(0), task.columns = w.shape(1), task.inputs = other_x ? 2 : 1;
    const int64_t pitch = kernels::padded<T>(task.columns);
    task.input[0].x = x.data(), task.input[0].w = w.data(), task.input[0].depth = w.shape(0);
    if (other_x) task.input[1].x = other_x->data(), task.input[1].w = other_w->data();
    if (other_x) task.input[1].depth = other_w->shape(0);
    const Scratch<T> packed((task.input[0].depth + task.input[1].depth) * pitch);
    task.input[0].packed = packed.data(), task.input[1].packed = packed.data() + task.input[0].depth * pitch;
    task.bias = pointer(bias), task.relu = relu, task.dropout = pointer(dropout), task.y = y.data();
    if (att_src) task.scores = scores_of(*att_src, *att_dst);
    if (att_src) task.scores.score[0] = score_src->data(), task.scores.score[1] = score_dst->data();
    nb::gil_scoped_release released;
    kernels::is_thin(task) ? kernels::thin_forward(task, threads) : kernels::dense_forward(task, threads);
}

// One input of the backward pass with its share of the scratch.
template <class T>
struct Side {
    Scratch<T> packed, partial;

    Side(kernels::DenseInput<T>& in, int64_t chunks, const In<T>& x, const In<T>& w, const MaybeOut<T>& grad_x,
         const Out<T>& grad_w)
        : packed(w.shape(1) * kernels::padded<T>(w.shape(0))),
          partial(chunks * w.shape(0) * kernels::padded<T>(w.shape(1))) {
        in = {x.data(), w.data(), int64_t(w.shape(0)), grad_x ? grad_x->data() : nullptr, grad_w.data(),
              packed.data(), partial.data()};
    }
};

template <class T>
void dense_backward(In<T> grad_y, Maybe<T> y, In<T> x, In<T> w, MaybeOut<T> grad_x, Out<T> grad_w, Maybe<T> other_x,
                    Maybe<T> other_w, MaybeOut<T> other_grad_x, MaybeOut<T> other_grad_w, Out<T> grad_bias,
                    Maybe<T> att_src, Maybe<T> att_dst, Maybe<T> grad_src, Maybe<T> grad_dst, MaybeOut<T> grad_att_src,
                    MaybeOut<T> grad_att_dst, bool relu, double grad_scale, int threads) {
    kernels::DenseTask<T> task{};
    task.rows = x.shape(0), task.columns = w.shape(1), task.inputs = other_x ? 2 : 1;
    const int64_t pitch = kernels::padded<T>(task.columns), depth = w.shape(0) + (other_x ? other_w->shape(0) : 0);
    const int64_t most = kernels::most_partials<T>(depth, task.columns);
    task.chunk = kernels::partial_rows(task.rows, most), task.chunks = kernels::partials_of(task.rows, most);
    const Side<T> side(task.input[0], task.chunks, x, w, grad_x, grad_w);
    std::optional<Side<T>> other;
    if (other_x) other.emplace(task.input[1], task.chunks, *other_x, *other_w, other_grad_x, *other_grad_w);
    if (att_src) task.scores = scores_of(*att_src, *att_dst);
    const Scratch<T> bias(task.chunks * pitch), block(threads * kernels::scratch_size(task));
    const Scratch<T> score_sums(task.chunks * 2 * task.scores.heads * task.scores.width);
    task.scores.partial = score_sums.data();
    if (att_src) task.scores.grad_score[0] = grad_src->data(), task.scores.grad_score[1] = grad_dst->data();
    if (att_src) task.scores.grad_att[0] = grad_att_src->data(), task.scores.grad_att[1] = grad_att_dst->data();
    task.relu = relu, task.grad_scale = T(grad_scale), task.grad_y = grad_y.data();
    task.y = const_cast<T*>(y ? y->data() : grad_y.data());
    task.grad_bias = grad_bias.data(), task.bias_partial = bias.data();
    nb::gil_scoped_release released;
    if (kernels::is_thin(task)) return kernels::thin_backward(task, threads);
    kernels::dense_backward<T>(task, block.data(), threads);
}

template <class T>
void define(nb::module_& m) {
    m.def("dense_forward", &dense_forward<T>, "x"_a, "w"_a, "other_x"_a.none(), "other_w"_a.none(), "bias"_a.none(),
          "relu"_a, "mask"_a.none(), "y"_a, "att_src"_a.none(), "att_dst"_a.none(), "score_src"_a.none(),
          "score_dst"_a.none(), "threads"_a);
    m.def("dense_backward", &dense_backward<T>, "grad_y"_a, "y"_a.none(), "x"_a, "w"_a, "grad_x"_a.none(), "grad_w"_a,
          "other_x"_a.none(), "other_w"_a.none(), "other_grad_x"_a.none(), "other_grad_w"_a.none(), "grad_bias"_a,
          "att_src"_a.none(), "att_dst"_a.none(), "grad_src"_a.none(), "grad_dst"_a.none(), "grad_att_src"_a.none(),
          "grad_att_dst"_a.none(), "relu"_a, "grad_scale"_a, "threads"_a);
}

// How many sums the gradient of weights [depth, columns] of float32 is the sum of.
int64_t dense_partials(int64_t rows, int64_t depth, int64_t columns) {
    return kernels::partials_of(rows, kernels::most_partials<float>(depth, columns));
}

// Into how many tasks the forward and the backward pass of float32 are cut.
nb::tuple dense_tasks(int64_t rows, int64_t depth, int64_t columns, int threads) {
    const int64_t blocks = (rows + kernels::kRowBlock - 1) / kernels::kRowBlock;
    const int64_t share = kernels::blocks_of_a_task(blocks, threads), chunks = dense_partials(rows, depth, columns);
    return nb::make_tuple((blocks + share - 1) / share, chunks * kernels::depth_slices(chunks, depth, threads));
}

}  // namespace

void define_dense(nb::module_& m) {
    define<float>(m);
    define<double>(m);
    m.def("dense_partials", &dense_partials, "rows"_a, "depth"_a, "columns"_a);
    m.def("dense_tasks", &dense_tasks, "rows"_a, "depth"_a, "columns"_a, "threads"_a);
}
