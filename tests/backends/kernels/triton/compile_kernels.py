"""Compiles every kernel of Triton for sm_80 and sm_90, without a GPU, and prints its shared memory; a program."""

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from backends.kernels.triton.attention import _attend, _edge_gradients, _row_statistics
from backends.kernels.triton.dropout import _drop_entries, _drop_rows
from backends.kernels.triton.sums import _sum_rows

POINTERS = {
    "bounds": "*i64", "rows": "*i64", "slots": "*i64", "columns": "*i32", "permutation": "*i32", "destinations": "*i64",
    "nodes": "*i64", "numbers": "*i64",
}  # fmt: skip
NUMBERS = {"width": "i32", "heads": "i32", "edges": "i32", "seed": "i64", "bound": "i64", "key": "i64"}
SIZES = {"EDGES": 8, "COLUMNS": 128, "HEADS": 4}
KERNELS = (_sum_rows, _row_statistics, _attend, _edge_gradients, _drop_rows, _drop_entries)


def compiled(kernel, kind, capability):
    """Compile one kernel with all its optional operands, for values of one type."""
    signature, constants = {}, {}
    for name in kernel.arg_names:
        if name.isupper():
            signature[name], constants[name] = "constexpr", SIZES.get(name, True)
        else:
            signature[name] = POINTERS.get(name) or NUMBERS.get(name) or f"*{kind}"
    source = ASTSource(kernel, signature, constexprs=constants)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 2})


if __name__ == "__main__":
    for capability in (80, 90):
        for kernel in KERNELS:
            for kind in ("fp32", "fp64"):
                binary = compiled(kernel, kind, capability)
                print(f"sm_{capability} {kernel.fn.__name__} {kind}: {binary.metadata.shared} bytes of shared memory")
