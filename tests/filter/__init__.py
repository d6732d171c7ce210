"""Tests of filters as text."""
