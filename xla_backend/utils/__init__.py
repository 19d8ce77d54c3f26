"""torch_xla.utils: small helpers, saving, checkpointing."""
