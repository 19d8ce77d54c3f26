"""torch_xla._internal: the few names of it that programs import."""
