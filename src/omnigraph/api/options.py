"""Words that options of several verbs take."""

from __future__ import annotations

from typing import Literal, get_args

Engine = Literal["auto", "arrow", "spark"]
"""Who does the work: this process (`arrow`), tasks of a Spark session, or what fits the data (`auto`)."""


Mode = Literal["append", "merge", "overwrite"]


MODES: tuple[Mode, ...] = get_args(Mode)


Format = Literal["jsonl", "parquet", "csv"]
