"""Processes that cannot write files, with limits of time and memory: for all work that a client's bytes decide.

A server moves bytes; what has to read them (SQL, uploaded files, conditions) runs here. ``restrict`` takes rights
away from a process, ``peer`` has the calls between both sides, ``child`` is the program of a process, and
``processes`` starts, watches, reuses and ends them.
"""
