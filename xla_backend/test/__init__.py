"""torch_xla.test: `test_utils`, the training scripts' printing and summaries."""
