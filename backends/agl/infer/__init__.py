"""GraphInfer: a trained model in K + 1 slices, one round each, every embedding computed once (AGL, section 3.4)."""
