"""Compiles every kernel of Triton for sm_80 and sm_90, without a GPU, and prints its shared memory; a program."""

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from backends.kernels.triton.attention import _edge_products, _edge_weights, _row_statistics, _score_gradients
from backends.kernels.triton.dense_layers import _finish, _finish_backward
from backends.kernels.triton.dropout import _drop_entries, _drop_rows
from backends.kernels.triton.sums import _sum_rows
from backends.kernels.triton.tiles import _add_tiles

POINTERS = {
    "begins": "*i32", "ends": "*i32", "rows": "*i32", "slots": "*i32", "starts": "*i64", "columns": "*i32",
    "edge_rows": "*i32", "permutation": "*i32", "nodes": "*i64", "numbers": "*i64",
}  # fmt: skip
NUMBERS = {
    "width": "i32", "heads": "i32", "edges": "i32", "count": "i32", "entries": "i64", "seed": "i64", "bound": "i64",
    "key": "i64",
}  # fmt: skip
SIZES = {"EDGES": 8, "COLUMNS": 16, "HEADS": 4, "PIECES": 4, "UNROLLED": 4, "SIDE": 32, "ENTRIES": 1024, "KIND": 2}
VARIANTS = {
    _edge_products: ({"WHOLE": False}, {"WHOLE": True}),
    _sum_rows: ({"JOINED": False}, {"JOINED": True}),
    _row_statistics: ({"MERGES": False}, {"MERGES": True}),
}
KERNELS = (
    _sum_rows, _add_tiles, _row_statistics, _edge_weights, _edge_products, _score_gradients, _finish,
    _finish_backward, _drop_rows, _drop_entries,
)  # fmt: skip


def compiled(kernel, kind, capability, variant):
    """Compile one kernel with all its optional operands but what a variant leaves out, for values of one type."""
    signature, constants = {}, {}
    for name in kernel.arg_names:
        if name.isupper():
            signature[name], constants[name] = "constexpr", variant.get(name, SIZES.get(name, True))
        else:
            signature[name] = POINTERS.get(name) or NUMBERS.get(name) or f"*{kind}"
    source = ASTSource(kernel, signature, constexprs=constants)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 2})


if __name__ == "__main__":
    for capability in (80, 90):
        for kernel in KERNELS:
            for kind in ("fp32", "fp64"):
                for variant in VARIANTS.get(kernel, ({},)):
                    binary = compiled(kernel, kind, capability, variant)
                    shared, name = binary.metadata.shared, kernel.fn.__name__
                    print(f"sm_{capability} {name} {kind}: {shared} bytes of shared memory")
