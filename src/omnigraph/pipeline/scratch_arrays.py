"""Arrays and blocks of topologies in a graph's scratch space, which tasks write and read again."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from omnigraph.execution.analytics.blocks import Block, Values
from omnigraph.execution.spark.workers import store_of

_BLOCKS_HELD = 16
"""The number of blocks that a worker process caches between supersteps: unmapped ones take memory."""
_VECTORS_HELD = 2
"""An upper bound of the vectors of one superstep."""


@dataclass(frozen=True, slots=True)
class BlockFile:
    """A block in the scratch space: the prefix of its arrays' names, and its nodes."""

    path: str
    begin: int
    end: int
    is_weighted: bool = False


def write_block(uri: str, path: str, block: Block) -> BlockFile:
    """Write a block under a name."""
    write_array(uri, f"{path}-starts.npy", block.starts)
    write_array(uri, f"{path}-neighbours.npy", block.neighbours)
    if block.weights is not None:
        write_array(uri, f"{path}-weights.npy", block.weights)
    return BlockFile(path, block.begin, block.begin + block.size, block.weights is not None)


@lru_cache(maxsize=_BLOCKS_HELD)
def read_block(uri: str, file: BlockFile) -> Block:
    """Read a block of the scratch space."""
    weights = read_array(uri, f"{file.path}-weights.npy") if file.is_weighted else None
    starts, neighbours = (read_array(uri, f"{file.path}-{name}.npy") for name in ("starts", "neighbours"))
    return Block(file.begin, starts, neighbours, weights)


def write_array(uri: str, path: str, array: Values) -> None:
    """Write an array under a name, as a file that numpy maps. A second attempt writes the same bytes."""
    head = io.BytesIO()
    kind = np.lib.format.dtype_to_descr(array.dtype)
    np.lib.format.write_array_header_1_0(head, {"descr": kind, "fortran_order": False, "shape": array.shape})
    body = pa.allocate_buffer(head.tell() + array.nbytes)
    np.frombuffer(body, np.uint8, head.tell())[:] = np.frombuffer(head.getbuffer(), np.uint8)
    np.frombuffer(body, array.dtype, offset=head.tell())[:] = array
    store_of(uri).objects.put_new(path, body, flush=False)


@lru_cache(maxsize=_VECTORS_HELD)
def read_vector(uri: str, path: str) -> Values:
    """Read an array that a worker needs for each of its blocks; it is fetched once."""
    return read_array(uri, path)


def read_array(uri: str, path: str) -> Values:
    """Read an array of the scratch space; on a local disk it is mapped."""
    store = store_of(uri)
    if store.root.is_local:
        return np.asarray(np.load(os.path.join(store.root.uri, path), mmap_mode="r"))
    return np.asarray(np.load(io.BytesIO(store.objects.get(path) or b"")))
