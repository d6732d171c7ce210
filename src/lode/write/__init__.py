"""The way of a write: stage the files, commit them (intent, swap, publish), rebase if somebody was first."""
