"""Dense layers against torch in float64: values, every gradient, any number of threads."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels import dense, projection
from backends.kernels.extension import extension
from tests.backends.kernels.matrices import use_plain


def drawn(seed, *shapes):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes]


def gradients(call, inputs, dtype, magnitude=False):
    """Outputs and gradients of all inputs, for output gradients that depend on nothing but their shapes.

    With ``magnitude`` of absolute inputs and flows: what rounding errors of sums of products are proportional to.
    """
    inputs = [part.abs() for part in inputs] if magnitude else inputs
    operands = [part.to(dtype).requires_grad_() for part in inputs]
    outputs = call(*operands)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    flows = [flow.to(dtype) for flow in drawn(7, *(out.shape for out in outputs))]
    flows = [flow.abs() for flow in flows] if magnitude else flows
    return [out.detach() for out in outputs], torch.autograd.grad(outputs, operands, flows)


def assert_close(actual, expected, bound):
    """Inputs are about 1 and sums may cancel, so that the bound holds for what is smaller too."""
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape
        assert float((one.double() - other).abs().max()) <= bound * float(other.abs().max() + 1)


def check(native_call, torch_call, inputs):
    """Each entry of outputs and gradients is off by no more than rounding makes of the sizes of its terms."""
    expected = gradients(torch_call, inputs, torch.float64)
    magnitudes = gradients(torch_call, inputs, torch.float64, magnitude=True)
    for dtype in (torch.float64, torch.float32):
        actual, bound = gradients(native_call, inputs, dtype), 8 * torch.finfo(dtype).eps
        triples = zip(*([*outputs, *slopes] for outputs, slopes in (actual, expected, magnitudes)), strict=True)
        for one, other, size in triples:
            assert one.shape == other.shape
            assert bool(((one.double() - other).abs() <= bound * size).all())


sizes = st.integers(1, 70)


@settings(max_examples=40)
@given(st.integers(0, 99), st.integers(1, 130), sizes, sizes, st.integers(0, 40), st.booleans())
def test_products_bias_and_their_gradients_equal_torchs(seed, rows, depth, columns, other, biased):
    shapes = [(rows, depth), (depth, columns), (columns,) if biased else None]
    shapes += [(rows, other), (other, columns)] if other else []
    inputs = drawn(seed, *(shape for shape in shapes if shape))

    def split(parts):
        bias = parts[2] if biased else None
        return parts[0], parts[1], bias, tuple(parts[-2:]) if other else None

    def ours(*parts):
        x, weight, bias, pair = split(parts)
        return dense(x, weight, bias, other=pair)

    def theirs(*parts):
        x, weight, bias, pair = split(parts)
        return x @ weight + (0 if bias is None else bias) + (0 if pair is None else pair[0] @ pair[1])

    check(ours, theirs, inputs)


@pytest.mark.parametrize(("rows", "depth", "columns"), [(2000, 50, 64), (1500, 7, 121), (97, 300, 33), (1, 1, 1)])
def test_relu_stops_the_gradient_where_the_output_is_zero(rows, depth, columns):
    x, weight, bias = drawn(3, (rows, depth), (depth, columns), (columns,))
    safe = (x @ weight + bias).abs() > 1e-4  # a sign that rounding could flip says nothing
    x, weight, bias = (part.requires_grad_() for part in (x, weight, bias))
    flow = torch.randn(rows, columns, dtype=torch.float64) * safe
    expected = torch.relu(x @ weight + bias)
    slopes = torch.autograd.grad(expected, (x, weight, bias), flow)
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        inputs = [part.detach().to(dtype).requires_grad_() for part in (x, weight, bias)]
        actual = dense(*inputs, relu=True)
        assert_close([actual.detach()], [expected.detach()], bound)
        assert_close(torch.autograd.grad(actual, inputs, flow.to(dtype)), slopes, bound)


@pytest.mark.parametrize("built", [True, False])
def test_nan_stays_nan_in_the_output_and_the_gradients_of_its_row(built, monkeypatch):
    if not built:
        use_plain(monkeypatch)
    x, weight, bias = drawn(3, (9, 5), (5, 21), (21,))
    x[2, 1] = torch.nan
    out = dense(x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), relu=True)
    rows = torch.arange(9) == 2
    assert torch.equal(out.isnan(), rows[:, None].expand_as(out))
    (grad_bias,) = torch.autograd.grad(out[2].sum(), bias)
    assert torch.equal(grad_bias, torch.ones(21, dtype=torch.float64))


@settings(max_examples=40)
@given(st.integers(0, 99), st.integers(1, 600), st.integers(1, 40), st.integers(1, 5), st.integers(1, 37))
def test_projection_and_scores_and_their_gradients_equal_torchs(seed, rows, depth, heads, width):
    inputs = drawn(seed, (rows, depth), (depth, heads * width), (heads, width), (heads, width))

    def theirs(x, weight, att_src, att_dst):
        z = (x @ weight).view(-1, heads, width)
        return z, (z * att_src).sum(-1), (z * att_dst).sum(-1)

    check(projection, theirs, inputs)


def test_gradients_pass_gradcheck():
    x, weight, bias, att = drawn(5, (9, 4), (4, 6), (6,), (2, 3))
    for part in (x, weight, bias, att):
        part.requires_grad_()
    assert torch.autograd.gradcheck(lambda *parts: dense(*parts, relu=True), (x, weight, bias))
    assert torch.autograd.gradcheck(lambda *parts: projection(*parts, parts[2] * 2), (x, weight, att))


def test_any_number_of_threads_gives_the_same_bits():
    inputs, before, runs = drawn(1, (3001, 50), (50, 121), (1, 121), (1, 121)), torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        outputs, slopes = gradients(projection, inputs, torch.float32)
        runs.append([*outputs, *slopes, *gradients(lambda *p: dense(*p[:2], relu=True), inputs[:2], torch.float32)[1]])
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))


@pytest.mark.parametrize(("depth", "columns"), [(4096, 512), (10_000, 256), (8000, 8000)])
def test_partial_sums_of_a_large_weight_are_few(depth, columns):
    partials, weight_bytes = extension.dense_partials(1 << 20, depth, columns), 4 * depth * columns
    assert 1 < partials <= max(4, (64 << 20) // weight_bytes)


def test_the_gradient_of_a_large_weight_is_summed_right_whatever_the_threads():
    draw, before = torch.Generator().manual_seed(0), torch.get_num_threads()
    x, weight, flow = (torch.randint(-2, 3, shape, generator=draw).float() for shape in ((2000, 2000),) * 3)
    assert extension.dense_partials(2000, 2000, 2000) < extension.dense_partials(2000, 20, 20)
    out, expected = dense(x, weight.requires_grad_()), x.t() @ flow
    for threads in (1, 8):
        torch.set_num_threads(threads)
        (gradient,) = torch.autograd.grad(out, weight, flow, retain_graph=True)
        assert torch.equal(gradient, expected)  # sums of small whole numbers are exact
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [2, 8, 64])
@pytest.mark.parametrize(("rows", "depth"), [(400, 1433), (1024, 602), (2708, 1433), (1 << 20, 128)])
def test_all_threads_have_work(rows, depth, threads):
    forward, backward = extension.dense_tasks(rows, depth, 64, threads)
    assert forward >= min(threads, rows // 48)
    assert backward >= min(threads, extension.dense_partials(rows, depth, 64) * (depth // 48))


@pytest.mark.parametrize("rows", [300, 700, 1500])
def test_any_number_of_threads_gives_the_same_bits_where_depth_is_shared(rows):
    inputs, before, runs = drawn(1, (rows, 611), (611, 40), (40,), (rows, 90), (90, 40)), torch.get_num_threads(), []
    for threads in (1, 2, 8):
        torch.set_num_threads(threads)
        two = gradients(lambda x, w, b, *pair: dense(x, w, b, relu=True, other=pair), inputs, torch.float32)[1]
        scored = gradients(projection, [*inputs[:2], *(torch.ones(2, 20).double() for _ in range(2))], torch.float32)[1]
        runs.append([*two, *scored])
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))


@pytest.mark.parametrize("columns", range(1, 10))
@pytest.mark.parametrize(("rows", "depth"), [(1, 16), (700, 8), (1500, 611), (1000, 64)])
def test_few_outputs_are_those_of_torch_with_the_same_bits_for_any_number_of_threads(rows, depth, columns):
    inputs, before, runs = drawn(1, (rows, depth), (depth, columns), (columns,)), torch.get_num_threads(), []
    check(dense, lambda x, weight, bias: x @ weight + bias, inputs)
    for threads in (1, 2, 8):
        torch.set_num_threads(threads)
        outputs, slopes = gradients(dense, inputs, torch.float32)
        runs.append([*outputs, *slopes])
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))


def test_a_constant_input_gets_no_gradient_and_views_are_read_right():
    x, weight = drawn(2, (40, 90), (21, 30))
    weight.requires_grad_()
    out = dense(x[::2, 3:24], weight.t().contiguous().t())
    assert_close([out.detach()], [(x[::2, 3:24] @ weight).detach()], 1e-12)
    out.sum().backward()
    assert_close([weight.grad], [x[::2, 3:24].t() @ torch.ones(20, 30, dtype=torch.float64)], 1e-12)


def test_no_rows_make_no_rows():
    weight = torch.ones(3, 2, requires_grad=True)
    out = dense(torch.ones(0, 3), weight, torch.ones(2), relu=True)
    out.sum().backward()
    assert out.shape == (0, 2)
    assert not weight.grad.any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: dense(a, a.new_ones(4, 2)), "are needed"),
        (lambda a: dense(a, a.new_ones(3, 2), a.new_ones(3)), "2 columns need"),
        (lambda a: dense(a, a.new_ones(3, 2).double()), "give both in one type"),
        (lambda a: dense(a, a.new_ones(3, 2), a.new_ones(2).double()), "bias is torch.float64 beside"),
        (lambda a: dense(a, a.new_ones(3, 2), other=(a.double(), a.new_ones(3, 2).double())), "other is torch.float64"),
        (
            lambda a: projection(a, a.new_ones(3, 4), a.new_ones(2, 2).double(), a.new_ones(2, 2)),
            "att_src is torch.float64",
        ),
        (lambda a: dense(a, a.new_ones(3, 2), other=(a[1:], a.new_ones(3, 2))), "give equal shapes"),
        (lambda a: projection(a, a.new_ones(3, 4), a.new_ones(2, 3), a.new_ones(2, 3)), "4 entries"),
        (lambda a: projection(a, a.new_ones(3, 4), a.new_ones(4), a.new_ones(4)), r"both need \[heads, d\], 4 entries"),
    ],
)
def test_shapes_and_types_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.ones(5, 3))
