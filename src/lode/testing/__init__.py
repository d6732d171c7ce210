"""Tools for tests of users: the store suite, the explorer of interleavings, real servers."""
