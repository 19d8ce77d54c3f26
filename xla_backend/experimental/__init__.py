"""torch_xla.experimental: nothing is here yet.

What torch_xla keeps here and where it is in this library: `eager_mode` is not needed to see values (ask for one, or use
`lt.sync()`); custom kernels, scans and gradient accumulation come with later issues.
"""
