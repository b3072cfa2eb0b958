"""AGL after Zhang et al., "AGL: A Scalable System for Industrial-purpose Graph Machine Learning", PVLDB 13 (2020)."""
