"""xla_backend: the machine under `lazy_tensor`, and PyTorch/XLA's API at its own module paths.

Rooms: `graph` (what is recorded) <- `kernel` (configurations, gradients) <- `compile` <- `program` (a sync);
`runtime` (devices, transfers), `random`, `metrics`, `debug` beside them. None of these knows PyTorch. The
torch_xla-compatible modules (`core`, ...) are thin and import the front end when called.
"""
