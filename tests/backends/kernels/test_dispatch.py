"""Dispatch by device: every implementation has the same functions, a new device is one entry of a table."""

import inspect
from types import SimpleNamespace

import pytest
import torch

from backends.kernels import (
    bias_activation,
    binary_cross_entropy,
    cross_entropy,
    dense,
    dispatch,
    native,
    plain,
    projection,
    spmm,
)
from backends.kernels.extension import extension
from tests.backends.kernels.matrices import random_csr, use_plain

FUNCTIONS = sorted(set(plain.__all__))


def test_native_code_computes_on_the_cpu_where_it_is_built():
    assert dispatch.implementation("x", torch.ones(1)) is (plain if extension is None else native)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_implementations_have_the_same_functions(name):
    assert inspect.signature(getattr(native, name)) == inspect.signature(getattr(plain, name))


def test_native_adds_to_the_functions_of_plain_only_fused_ones():
    assert set(native.__all__) - {"sampling", "gat_layer", "spmm_layer", "spmm_with_own"} == set(FUNCTIONS)


def test_a_new_device_is_one_entry(monkeypatch):
    calls = []
    monkeypatch.setitem(
        dispatch.IMPLEMENTATIONS, "meta", SimpleNamespace(spmm=lambda *arguments: calls.append(arguments) or "product")
    )
    assert spmm(random_csr(0, 3, 4, 5), torch.ones(4, 2, device="meta")) == "product"
    assert len(calls) == 1


ON_META = torch.ones(4, 4, device="meta")


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize(
    "call",
    [
        lambda: dense(ON_META, ON_META),
        lambda: projection(ON_META, ON_META, ON_META[:2, :2], ON_META[:2, :2]),
        lambda: bias_activation(ON_META, ON_META[0]),
        lambda: binary_cross_entropy(ON_META, ON_META),
        lambda: cross_entropy(ON_META, torch.ones(4, dtype=torch.int64, device="meta")),
    ],
)
def test_other_devices_are_refused(call, built, monkeypatch):
    if not built:
        use_plain(monkeypatch)
    with pytest.raises(ValueError, match=r"is on meta: the kernels run on cpu, call \.to\('cpu'\) first"):
        call()
