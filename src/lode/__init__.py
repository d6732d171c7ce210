"""Lode."""
