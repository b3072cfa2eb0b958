"""Processors as kernels describe them: two generations of one name differ, and no text is an error."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.store.files import slug
from harness.store.processor import NAMES, processor

X86 = """processor\t: 0
vendor_id\t: {vendor}
cpu family\t: {family}
model\t\t: {model}
model name\t: {name}
stepping\t: {stepping}
flags\t\t: fpu sse2 hypervisor avx2

processor\t: 1
vendor_id\t: other
"""
ARM = """processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""
POWER = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800.0MHz\nrevision\t: 2.3 (pvr 004e 1203)\n"
RISCV = "processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\nuarch\t\t: sifive,u74-mc\n"


def title(folder: Path, text: str) -> str:
    path = folder / "cpuinfo"
    path.write_text(text)
    return slug(processor(path).title)


@pytest.mark.parametrize(
    ("vendor", "name", "numbers", "expected"),
    [
        ("AuthenticAMD", "AMD EPYC", (25, 1, 1), "amd-epyc-f25m1s1"),
        ("AuthenticAMD", "AMD EPYC", (25, 17, 1), "amd-epyc-f25m17s1"),
        ("GenuineIntel", "Intel(R) Xeon(R) Processor", (6, 167, 8), "intel-xeon-f6m167s8"),
        ("GenuineIntel", "QEMU Virtual CPU version 2.5+", (6, 6, 3), "intel-qemu-virtual-version-2-5-f6m6s3"),
        ("Shanghai", "KX-6000", (7, 59, 0), "shanghai-kx-6000-f7m59s0"),
    ],
)
def test_the_name_has_vendor_and_generation(tmp_path, vendor, name, numbers, expected) -> None:
    family, model, stepping = numbers
    text = X86.format(vendor=vendor, name=name, family=family, model=model, stepping=stepping)
    assert title(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ARM, "arm-d0cr3p1"),
        (ARM.replace("0x41", "0x99"), "implementer-0x99-d0cr3p1"),
        (POWER, "power9-altivec-supported"),
        (RISCV, "sifive-u74-mc"),
    ],
)
def test_other_processors_are_named_by_what_their_kernel_tells(tmp_path, text, expected) -> None:
    assert title(tmp_path, text) == expected


def test_a_hypervisor_is_told_by_the_flags(tmp_path) -> None:
    (tmp_path / "cpuinfo").write_text(X86)
    assert processor(tmp_path / "cpuinfo").virtual
    (tmp_path / "cpuinfo").write_text(X86.replace("hypervisor", ""))
    assert not processor(tmp_path / "cpuinfo").virtual


def test_without_the_kernels_file_the_architecture_is_the_name(tmp_path) -> None:
    assert slug(processor(tmp_path / "absent").title)


KEYS = st.sampled_from([*NAMES, "vendor_id", "cpu family", "model", "stepping", "CPU part", "CPU variant", "flags"])
LINES = st.lists(st.tuples(KEYS | st.text(max_size=8), st.sampled_from([":", "\t: ", ""]), st.text(max_size=12)))


@given(LINES)
def test_no_description_is_an_error(tmp_path_factory, lines) -> None:
    path = tmp_path_factory.getbasetemp() / "cpuinfo"
    path.write_bytes("\n".join(map("".join, lines)).encode(errors="surrogatepass") + b"\xff\x00")
    known = processor(path)
    assert known.title == f"{known.name} {known.generation}".strip() and known.name
