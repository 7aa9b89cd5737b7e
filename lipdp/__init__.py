"""lipdp: differentially private Keras training without per-sample clipping."""
