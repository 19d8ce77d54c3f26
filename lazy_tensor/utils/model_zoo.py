"""Weights by URL under torch's old name (torch.utils.model_zoo)."""
from lazy_tensor.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
