"""Shared parts of both parsers: tokens with places, a cursor over them, escapes and limits of texts."""
