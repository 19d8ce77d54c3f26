"""torch_xla.distributed.xla_backend: programs import it so that `init_process_group("xla")` is known; here it always is."""
