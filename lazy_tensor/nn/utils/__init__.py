"""torch.nn.utils: clipping, vectors of parameters, sequences, functional calls, fusion, parametrizations, pruning."""
from __future__ import annotations

from lazy_tensor.nn.utils import clip_grad, convert_parameters, fusion, memory_format, parametrizations, parametrize, prune, rnn, stateless
from lazy_tensor.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from lazy_tensor.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from lazy_tensor.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from lazy_tensor.nn.utils.init import skip_init
from lazy_tensor.nn.utils.memory_format import convert_conv2d_weight_memory_format, convert_conv3d_weight_memory_format
from lazy_tensor.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from lazy_tensor.nn.utils.weight_norm import remove_weight_norm, weight_norm
