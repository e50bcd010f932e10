"""Keeps Arrow from loading pandas: import this before pyarrow makes its first array.

Arrow looks for pandas then, and loads it if it is installed: 60 MiB and half a CPU-second in every process, for
conversions that are not used here. So it looks now, while pandas is hidden. ``Table.to_pandas`` makes it look again.
"""

import pyarrow as pa

from canary.footprint import hidden

with hidden("pandas"):
    pa.array([0])

with hidden("pyarrow._azurefs", "pyarrow._gcsfs", "pyarrow._hdfs", "pyarrow._s3fs"):  # object stores go through fsspec
    import pyarrow.fs  # noqa: F401
