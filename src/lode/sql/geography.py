"""GEOGRAPHY functions."""

from __future__ import annotations

from typing import Any

GEOGRAPHY_FUNCTIONS: dict[str, Any] = {}
