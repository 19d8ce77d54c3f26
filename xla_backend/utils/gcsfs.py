"""torch_xla.utils.gcsfs: Google Cloud Storage paths are not read here; each function says what to use."""
from __future__ import annotations


def _refuse(what, path):
    raise NotImplementedError(f"gcsfs.{what}: {path!r}: Google Cloud Storage is not built in; open it with the package gcsfs "
                              "(gcsfs.GCSFileSystem().open(path)), or copy it first with `gcloud storage cp`")


def is_gcs_path(path: str) -> bool:
    """Whether a path starts with gs://."""
    return path.startswith("gs://")


def open(path: str, mode: str = "r", encoding=None):
    """Raises NotImplementedError that names the package to use."""
    _refuse("open", path)


def list(path: str):
    """Raises NotImplementedError that names the package to use."""
    _refuse("list", path)


def read(path: str):
    """Raises NotImplementedError that names the package to use."""
    _refuse("read", path)


def write(path: str, content):
    """Raises NotImplementedError that names the package to use."""
    _refuse("write", path)


def rename(src: str, dest: str):
    """Raises NotImplementedError that names the package to use."""
    _refuse("rename", src)


def remove(path: str):
    """Raises NotImplementedError that names the package to use."""
    _refuse("remove", path)


def stat(path: str):
    """Raises NotImplementedError that names the package to use."""
    _refuse("stat", path)
