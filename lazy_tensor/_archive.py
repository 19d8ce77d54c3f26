"""torch's zip archives: stored records aligned to 64 bytes, read with every size checked against the file."""
from __future__ import annotations

import os
import struct
import zipfile

import numpy as np

_ALIGN = 64
_LOCAL = struct.Struct("<4s5H3L2H")


def corrupt(why) -> RuntimeError:
    """torch's error for a damaged archive."""
    return RuntimeError(f"PytorchStreamReader failed reading zip archive: {why}. The checkpoint file is corrupted: it was not "
                        "saved or copied whole, or it was modified after saving.")


class Writer:
    """Adds records to an archive; `name` is the folder that they lie in."""

    def __init__(self, file, name):
        self.zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self.name = name

    def add(self, record, data):
        """Write one record: bytes, or a C-contiguous NumPy array's bytes."""
        view = memoryview(data).cast("B") if isinstance(data, (bytes, bytearray)) else memoryview(data.reshape(-1).view(np.uint8))
        info = zipfile.ZipInfo(f"{self.name}/{record}", (1980, 1, 1, 0, 0, 0))
        info.file_size = view.nbytes
        big = view.nbytes * 1.05 > zipfile.ZIP64_LIMIT
        head = _LOCAL.size + len(info.filename.encode()) + 4 + (20 if big else 0)
        pad = -(self.zip.fp.tell() + head) % _ALIGN
        info.extra = b"FB" + struct.pack("<H", pad) + b"Z" * pad
        with self.zip.open(info, "w", force_zip64=big) as out:
            out.write(view)

    def close(self):
        """Write the central directory."""
        self.zip.close()


class Reader:
    """Records of an archive, without running or extracting anything."""

    def __init__(self, file, path=None):
        self.path = path
        try:
            self.zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, struct.error, EOFError, OSError, ValueError, IndexError, NotImplementedError) as e:
            raise corrupt(f"failed finding central directory ({e})") from e
        file.seek(0, os.SEEK_END)
        size = file.tell()
        self.records = {}
        tops = set()
        total = 0
        for info in self.zip.infolist():
            parts = info.filename.split("/")
            if ".." in parts or info.filename.startswith("/") or "\\" in info.filename or "" in parts[:-1]:
                raise corrupt(f"the record name {info.filename!r} leads out of the archive")
            if info.is_dir():
                continue
            if info.filename in self.records:
                raise corrupt(f"two records are named {info.filename!r}")
            if info.compress_type != zipfile.ZIP_STORED:
                raise corrupt(f"record {info.filename!r} is compressed; PyTorch's archives store their records")
            total += info.file_size
            if info.file_size != info.compress_size or total > size:
                raise corrupt(f"record {info.filename!r} says that it has {info.file_size} bytes, in a file of {size}")
            if info.flag_bits & 1:
                raise corrupt(f"record {info.filename!r} is encrypted")
            tops.add(parts[0])
            self.records[info.filename] = info
        if len(tops) != 1:
            raise corrupt(f"records must lie in one folder, found {sorted(tops)[:3]}")
        self.name = tops.pop()
        if f"{self.name}/constants.pkl" in self.records:
            raise RuntimeError("load: the file is a TorchScript archive; it holds a program, not only tensors. Save the "
                               "model's state_dict() with torch.save instead.")

    def size(self, record):
        """Bytes of a record; None when there is none."""
        info = self.records.get(f"{self.name}/{record}")
        return None if info is None else info.file_size

    def read(self, record) -> bytes:
        """A record's bytes, its CRC checked."""
        info = self._info(record)
        try:
            with self.zip.open(info) as f:
                return f.read()
        except (zipfile.BadZipFile, struct.error, EOFError, OSError, ValueError, NotImplementedError) as e:
            raise corrupt(f"record {info.filename!r}: {e}") from e

    def map(self, record) -> np.ndarray:
        """A record's bytes mapped from the file (copy on write, CRC not checked)."""
        info = self._info(record)
        with open(self.path, "rb") as f:
            f.seek(info.header_offset)
            head = f.read(_LOCAL.size)
            fields = _LOCAL.unpack(head) if len(head) == _LOCAL.size else (b"",)
            start = info.header_offset + _LOCAL.size + sum(fields[-2:]) if fields[0] == b"PK\x03\x04" else -1
            if start < 0 or start + info.file_size > os.fstat(f.fileno()).st_size:
                raise corrupt(f"record {info.filename!r} does not lie in the file")
        if not info.file_size:
            return np.empty(0, np.uint8)
        return np.asarray(np.memmap(self.path, np.uint8, "c", start, (info.file_size,)))

    def _info(self, record):
        info = self.records.get(f"{self.name}/{record}")
        if info is None:
            raise corrupt(f"it has no record {record!r}")
        return info
