"""Option values that several verbs share."""

from __future__ import annotations

from typing import Literal, get_args

Engine = Literal["auto", "arrow", "spark"]
"""Where the work runs: in this process (`arrow`), in tasks of a Spark session, or chosen by the data (`auto`)."""


Mode = Literal["append", "merge", "overwrite"]


MODES: tuple[Mode, ...] = get_args(Mode)


Format = Literal["jsonl", "parquet", "csv"]
