"""The root of all errors."""

from __future__ import annotations

from typing import Any, ClassVar


class OmnigraphError(Exception):
    """Root of all errors. `hint` says what to do next, when there is something to say."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def details(self) -> dict[str, Any]:
        """Structured fields for `--json` and HTTP bodies."""
        return {}

    def as_dict(self) -> dict[str, Any]:
        """The error as one JSON-ready object."""
        body: dict[str, Any] = {"error": self.message, "code": self.code, "retryable": self.retryable}
        if self.hint:
            body["hint"] = self.hint
        return body | self.details()
