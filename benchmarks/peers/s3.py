"""The S3 server of the benchmarks, which counts what it is asked."""

from __future__ import annotations

import os

from lode.testing.servers import S3Server


class LoggingS3Server(S3Server):
    """Counts what it was asked by the lines of its log."""

    @property
    def requests(self) -> int:
        # pread, because the server writes at the same file offset that a read would move.
        descriptor = self._log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).count(b" HTTP/1.1")
