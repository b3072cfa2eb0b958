"""What sampling takes of memory, and what is raised where there is none left; in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

LITTLE_MEMORY = """
import resource
from pathlib import Path
import numpy as np
from backends.kernels import sample_neighbors
from datasets.csr import Csr

degree = 5_000_000  # whose sums take 40 MB
csr = Csr(np.array([0, degree], dtype=np.int32), np.zeros(degree, dtype=np.int32), (1, 1))
weight = np.ones(degree, dtype=np.float32)
lines = Path("/proc/self/status").read_text().splitlines()
data = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))
resource.setrlimit(resource.RLIMIT_DATA, (data + (16 << 20), resource.getrlimit(resource.RLIMIT_DATA)[1]))
try:
    sample_neighbors(csr, np.array([0]), 1, sampler="weighted", weight=weight)
except Exception as error:
    print(type(error).__name__)
"""

MANY_THREADS = """
import numpy as np
import torch
from backends.kernels import khop
from datasets.csr import csr_from_edges
from datasets.high_water import HighWater

nodes, threads = 5_000, 64
draw = np.random.default_rng(0)
csr = csr_from_edges(draw.integers(0, nodes, 10 * nodes), draw.integers(0, nodes, 10 * nodes), (nodes, nodes))
torch.set_num_threads(threads)
mark = HighWater()
khop(csr, np.arange(4_096), [None, None], scope="target")
print(mark.growth() / (threads * 4_096 * nodes / 8))
"""

WHOLE_ROW = """
import numpy as np
from backends.kernels import sample_neighbors
from datasets.csr import Csr
from datasets.high_water import HighWater

degree = 2_000_000
csr = Csr(np.array([0, degree], dtype=np.int32), np.zeros(degree, dtype=np.int32), (1, 1))
mark = HighWater()
sample_neighbors(csr, np.array([0]), None, sampler="weighted", weight=np.ones(degree, dtype=np.float32))
print(mark.growth() / degree)
"""


def output(program: str) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    environment.pop("LD_PRELOAD", None)  # a sanitizer ends the process where there is no memory
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_want_of_memory_while_a_row_is_sampled_is_a_memory_error() -> None:
    assert output(LITTLE_MEMORY) == "MemoryError"


def test_many_threads_have_no_bit_each_for_every_copy_of_every_node() -> None:
    assert float(output(MANY_THREADS)) < 0.6


def test_a_hub_sampled_whole_by_weight_takes_memory_by_its_edges() -> None:
    assert float(output(WHOLE_ROW)) < 80  # bytes an edge, of which a table of its places had 96
