"""The processor of this machine as the kernel describes it: name, vendor, family, model, stepping; never an error."""

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "HygonGenuine": "Hygon"}
# Arm's numbers of implementers (MIDR_EL1), those that build servers and laptops
IMPLEMENTERS = {0x41: "Arm", 0x42: "Broadcom", 0x43: "Cavium", 0x46: "Fujitsu", 0x48: "HiSilicon", 0x4E: "NVIDIA"}
IMPLEMENTERS |= {0x51: "Qualcomm", 0x61: "Apple", 0xC0: "Ampere"}
NAMES = ("model name", "cpu model", "cpu", "uarch", "Processor", "machine")


@dataclass(frozen=True)
class Processor:
    """A processor's name with its vendor, and its generation: ``f25m1s1`` is family 25, model 1, stepping 1.

    Of Arm the generation is part and revision, ``d0cr3p1``; it is empty where the kernel tells none.
    """

    name: str
    generation: str
    instructions: frozenset[str]  # of x86, as the kernel names them: "avx2"

    @property
    def virtual(self) -> bool:
        """Whether a hypervisor says that it is there."""
        return "hypervisor" in self.instructions

    @property
    def title(self) -> str:
        """Name and generation."""
        return f"{self.name} {self.generation}".strip()


def processor(path: Path = CPUINFO) -> Processor:
    """Describe the first processor that the kernel lists."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        text = ""
    pairs = re.findall(r"^([^:\n]+?)\s*:[ \t]*(.*?)[ \t]*$", text, re.M)
    values = {key: value for key, value in reversed(pairs) if value}
    instructions = frozenset(values.get("flags", "").split())
    return Processor(_name(values), _x86_generation(values) or _arm_generation(values), instructions)


def _name(values: Mapping[str, str]) -> str:
    name = next((values[key] for key in NAMES if not values.get(key, "").isdigit() and key in values), "")
    vendor = values.get("vendor_id", values.get("CPU implementer", ""))
    vendor = VENDORS.get(vendor, vendor)
    if (number := _number(vendor)) is not None:
        vendor = IMPLEMENTERS.get(number, f"implementer {vendor}")
    if vendor.lower() in name.lower():
        return name or platform.machine() or "unknown"
    return f"{vendor} {name}".strip()


def _x86_generation(values: Mapping[str, str]) -> str:
    keys = {"f": "cpu family", "m": "model", "s": "stepping"}
    return "".join(f"{letter}{values[key]}" for letter, key in keys.items() if values.get(key, "").isdigit())


def _arm_generation(values: Mapping[str, str]) -> str:
    part, variant, revision = (_number(values.get(f"CPU {key}", "")) for key in ("part", "variant", "revision"))
    words = (("", part, "x"), ("r", variant, "d"), ("p", revision, "d"))
    return "".join(f"{letter}{value:{form}}" for letter, value, form in words if value is not None)


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None
