"""The layers, a file a family; public through `lazy_tensor.nn`."""
