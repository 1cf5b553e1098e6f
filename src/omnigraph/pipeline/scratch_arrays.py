"""Arrays and blocks of topologies in a graph's scratch space: what tasks leave there and read again."""

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
"""How many blocks a worker process keeps between supersteps: those that are not mapped take its memory."""
_VECTORS_HELD = 2
"""More than one is asked for in one superstep by no algorithm."""


@dataclass(frozen=True, slots=True)
class BlockFile:
    """A block in the scratch space: what the names of its arrays begin with, and its nodes."""

    path: str
    begin: int
    end: int
    is_weighted: bool = False


def write_block(uri: str, path: str, block: Block) -> BlockFile:
    """Leave a block under a name."""
    write_array(uri, f"{path}-starts.npy", block.starts)
    write_array(uri, f"{path}-neighbours.npy", block.neighbours)
    if block.weights is not None:
        write_array(uri, f"{path}-weights.npy", block.weights)
    return BlockFile(path, block.begin, block.begin + block.size, block.weights is not None)


@lru_cache(maxsize=_BLOCKS_HELD)
def read_block(uri: str, file: BlockFile) -> Block:
    """A block of the scratch space."""
    weights = read_array(uri, f"{file.path}-weights.npy") if file.is_weighted else None
    starts, neighbours = (read_array(uri, f"{file.path}-{name}.npy") for name in ("starts", "neighbours"))
    return Block(file.begin, starts, neighbours, weights)


def write_array(uri: str, path: str, array: Values) -> None:
    """Leave an array under a name, as a file that numpy maps. A second attempt finds the same there."""
    head = io.BytesIO()
    kind = np.lib.format.dtype_to_descr(array.dtype)
    np.lib.format.write_array_header_1_0(head, {"descr": kind, "fortran_order": False, "shape": array.shape})
    body = pa.allocate_buffer(head.tell() + array.nbytes)
    np.frombuffer(body, np.uint8, head.tell())[:] = np.frombuffer(head.getbuffer(), np.uint8)
    np.frombuffer(body, array.dtype, offset=head.tell())[:] = array
    store_of(uri).objects.put_new(path, body, flush=False)


@lru_cache(maxsize=_VECTORS_HELD)
def read_vector(uri: str, path: str) -> Values:
    """An array that a worker needs for each of its blocks: it is fetched once."""
    return read_array(uri, path)


def read_array(uri: str, path: str) -> Values:
    """An array of the scratch space; on a local disk it is mapped, not read."""
    store = store_of(uri)
    if store.root.is_local:
        return np.asarray(np.load(os.path.join(store.root.uri, path), mmap_mode="r"))
    return np.asarray(np.load(io.BytesIO(store.objects.get(path) or b"")))
