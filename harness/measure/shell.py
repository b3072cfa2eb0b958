"""Variables of the user's shell that change how fast libraries compute, beside those that the harness sets itself."""

from collections.abc import Mapping

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
PREFIXES = ("ATEN_", "DNNL_", "GOMP_", "KMP_", "MKL_", "OMP_", "ONEDNN_", "OPENBLAS_")
# Libraries set these two for their process when they are imported.
LEFT_OUT = (*THREAD_VARIABLES, "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK")


def speed_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of some variables that change the speed of libraries, sorted, without the numbers of threads."""
    names = (name for name in sorted(variables) if name.startswith(PREFIXES) and name not in LEFT_OUT)
    return {name: variables[name] for name in names}
