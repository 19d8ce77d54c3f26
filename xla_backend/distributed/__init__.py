"""torch_xla.distributed: feeding devices (`parallel_loader`) and starting processes (`xla_multiprocessing`)."""
