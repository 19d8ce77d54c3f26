"""TensorBoard's event files (torch.utils.tensorboard), written by tensorboardX."""
try:
    from tensorboardX import SummaryWriter
except ImportError as e:
    raise ImportError("lazy_tensor.utils.tensorboard writes with tensorboardX, which is not installed: pip install tensorboardX") from e

__all__ = ["SummaryWriter"]
