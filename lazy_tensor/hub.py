"""Models and weights from the network (torch.hub): files already on disk are loaded, nothing else can be."""
from __future__ import annotations

import hashlib
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

_dir: list[str | None] = [None]


def get_dir() -> str:
    """Where downloads are kept: `set_dir`'s, else $TORCH_HOME/hub, else ~/.cache/torch/hub."""
    if _dir[0] is not None:
        return _dir[0]
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))), "hub")


def set_dir(d) -> None:
    """Keep downloads in another folder."""
    _dir[0] = os.path.expanduser(d)


def download_url_to_file(url, dst, hash_prefix=None, progress=True) -> None:
    """Fetch a URL into a file, moved into place once its SHA-256 starts with hash_prefix.

    Raises RuntimeError that names the URL and the place for a copy when it cannot be fetched, or when the hash differs."""
    from lazy_tensor.serialization import _atomic

    def write(out):
        digest = hashlib.sha256()
        try:
            with urllib.request.urlopen(url, timeout=60) as source:
                while block := source.read(1 << 20):
                    digest.update(block)
                    out.write(block)
        except (urllib.error.URLError, OSError) as e:
            raise RuntimeError(f"hub: cannot fetch {url}: {e}. Without a network, put the file at {dst} and call again.") from e
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
    _atomic(Path(os.path.realpath(dst)), write)


def load_state_dict_from_url(url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None, weights_only=True):
    """The state dict at a URL, from the copy in model_dir (get_dir()/checkpoints) when there is one, else fetched first."""
    from lazy_tensor.serialization import load
    model_dir = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    name = file_name or os.path.basename(urllib.parse.urlparse(url).path)
    path = os.path.join(model_dir, name)
    if not os.path.exists(path):
        os.makedirs(model_dir, exist_ok=True)
        found = re.search(r"-([a-f0-9]*)\.", name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    return load(path, map_location=map_location, weights_only=weights_only)


def load(repo_or_dir, model, *args, **kwargs):
    """Raises: a hub repository is PyTorch code that is downloaded and run; only its weights can be read here."""
    raise RuntimeError(f"hub.load({repo_or_dir!r}, {model!r}): a hub repository holds code for PyTorch, which lazy_tensor does not "
                       "fetch or run. Port the model's class, and read its weights with hub.load_state_dict_from_url or lazy_tensor.load.")



