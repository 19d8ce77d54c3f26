"""torch_xla.core: `xla_model` (devices, steps, collectives) and `functions` (collectives with gradients).

Thin: each function imports `lazy_tensor` when it is called.
"""
