"""Memory formats of convolution weights (torch.nn.utils.convert_conv2d_weight_memory_format and its 3-d form)."""
from __future__ import annotations

from lazy_tensor.nn.layers import conv


def _convert(module, kinds, memory_format):
    import lazy_tensor as lt
    if memory_format is lt.preserve_format:
        raise RuntimeError("convert_conv_weight_memory_format: unsupported memory format torch.preserve_format; channels_last or "
                           "contiguous_format would fit")
    for m in module.modules():
        if isinstance(m, kinds):
            m.weight.data = m.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """The weights of all Conv2d and ConvTranspose2d in module with a memory format; returns module.

    Strides follow; the layout in device memory is XLA's choice."""
    return _convert(module, (conv.Conv2d, conv.ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module, memory_format):
    """The weights of all Conv3d and ConvTranspose3d in module with a memory format; returns module."""
    return _convert(module, (conv.Conv3d, conv.ConvTranspose3d), memory_format)
