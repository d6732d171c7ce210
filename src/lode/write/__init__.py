"""Writes: stage files, commit them (intent, swap, publish), rebase onto commits of other writers."""
