"""HDFS over HTTP: fsspec's client, made to say what it overlooks.

The native client of HDFS is in no package of Python; every NameNode, and every HttpFS gateway, speaks WebHDFS.
"""

from typing import Any

from fsspec.implementations.webhdfs import WebHDFile, WebHDFS


class StrictFile(WebHDFile):  # type: ignore[misc]  # fsspec has no types
    """A file whose reads are its data: fsspec takes a DataNode's refusal for the bytes of the file.

    What fits into a block is written by one request to a DataNode, where fsspec makes an empty file and appends to it.
    """

    def _fetch_range(self, start: int, end: int) -> bytes:
        start, end = max(start, 0), min(end, self.size)
        if start >= end:
            return b""
        answer = self.fs._call("OPEN", path=self.path, offset=start, length=end - start)  # noqa: SLF001  # its one door
        data: bytes = answer.content
        if len(data) != end - start:
            raise OSError(f"{self.path}: of {end - start} bytes from byte {start} on only {len(data)} came")
        return data

    def _initiate_upload(self) -> None:
        """Leave it to the first chunk."""

    def _upload_chunk(self, final: bool = False) -> bool:  # noqa: ARG002, FBT001, FBT002  # fsspec's way to call it
        how: dict[str, Any] = {"op": "APPEND", "method": "POST"}
        if self.offset == 0:
            how = {"op": "CREATE", "method": "PUT", "overwrite": "true"}
        place = self.fs._call(path=self.path, redirect=False, **how).headers["Location"]  # noqa: SLF001
        headers = {"content-type": "application/octet-stream"}
        self.fs.session.request(how["method"], place, data=self.buffer.getvalue(), headers=headers).raise_for_status()
        return True


class StrictWebHDFS(WebHDFS):  # type: ignore[misc]  # fsspec has no types
    """The file system of ``webhdfs://[USER@]HOST:PORT/…``."""

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **kwargs: Any) -> StrictFile:
        kwargs = {"autocommit": True, "replication": None, "permissions": None, "tempdir": self.tempdir} | kwargs
        return StrictFile(self, path, mode=mode, block_size=block_size or self.blocksize, **kwargs)

    def isdir(self, path: str) -> bool:
        """Return whether there is such a folder.

        Raises:
            OSError: the NameNode does not answer. To fsspec the folder is missing then.
        """
        try:
            return bool(self.info(path)["type"] == "directory")
        except FileNotFoundError:
            return False

    def mv(self, path1: str, path2: str, **_kwargs: Any) -> None:
        """Put a file in the place of whatever file ``path2`` is, at once.

        Raises:
            OSError: HDFS does not. To fsspec it is done then.
        """
        answer = self._call("RENAME", method="put", path=path1, destination=path2, renameoptions="OVERWRITE")
        if answer.content and not answer.json()["boolean"]:  # a gateway that knows no options
            raise OSError(f"{path1} could not be renamed to {path2}")

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Write a file that appears whole, as in an object store."""
        folder, _, name = path.rpartition("/")
        super().pipe_file(f"{folder}/.{name}", value, mode, **kwargs)
        self.mv(f"{folder}/.{name}", path)
