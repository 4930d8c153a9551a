"""Training a model: `objective` says what is made small, `optimizers` how, and `loop` is `fit`."""
