"""Arrow as the storage uses it: import this before anything of pyarrow does work.

Arrow looks for pandas when the first array is made, and loads it if it is there: 60 MiB and half a CPU-second in every
process, for conversions that nobody here asks for. So it looks now, and finds none. Who wants a DataFrame
(``Table.to_pandas``) makes it look again.
"""

from __future__ import annotations

import pyarrow as pa

from canary.footprint import hidden

with hidden("pandas"):
    pa.array([0])

with hidden("pyarrow._azurefs", "pyarrow._gcsfs", "pyarrow._hdfs", "pyarrow._s3fs"):  # object stores go through fsspec
    import pyarrow.fs  # noqa: F401
