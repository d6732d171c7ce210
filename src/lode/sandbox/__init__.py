"""Processes that cannot write files, with limits of time and memory: for work that a client's bytes decide.

A server moves bytes. What has to read them runs here: SQL, uploaded files, conditions. ``restrict`` takes
rights away from a process, ``peer`` has the calls between both sides, ``child`` is the program of a process,
and ``processes`` starts, watches, reuses and ends them.
"""
