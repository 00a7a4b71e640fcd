"""Tests of file transfers against a real daemon. The environment variable REPL names the built program."""

import asyncio
import io
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from test_client import with_daemon  # noqa: E402  (it finds the package)

from turnstone_client import TurnstoneError, transfer  # noqa: E402


async def new_session(client, directory):
    return await client.create("main", language="python", dir=directory)


class TransferTest(unittest.TestCase):
    async def check_kind(self, kind, call):
        with self.assertRaises(TurnstoneError) as caught:
            await call
        self.assertEqual(caught.exception.kind, kind, caught.exception)

    @with_daemon
    async def test_a_file_goes_there_and_back(self, client, daemon):
        with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as local:
            session = await new_session(client, work)
            content = os.urandom(2 * transfer.PIECE + 17)
            path = os.path.join(local, "data.bin")
            with open(path, "wb") as file:
                file.write(content)
            os.chmod(path, 0o755)
            progress = []
            await transfer.put(session, path, on_progress=progress.append)
            self.assertEqual(progress, [transfer.PIECE, 2 * transfer.PIECE, len(content)])
            self.assertEqual(await transfer.get(session, "data.bin"), content)
            copy = os.path.join(local, "copy.bin")
            await transfer.get(session, "data.bin", copy)
            with open(copy, "rb") as file:
                self.assertEqual(file.read(), content)
            self.assertTrue(os.access(copy, os.X_OK))
            buffer = io.BytesIO()
            await transfer.get(session, "data.bin", buffer)
            self.assertEqual(buffer.getvalue(), content)
            self.assertEqual(os.listdir(work), ["data.bin"])

    @with_daemon
    async def test_bytes_streams_and_empty_files_can_be_put(self, client, daemon):
        with tempfile.TemporaryDirectory() as work:
            session = await new_session(client, work)
            for content in (b"", b"x" * transfer.PIECE, b"abc"):
                await transfer.put(session, content, "a/b", overwrite=True, parents=True)
                self.assertEqual(await transfer.get(session, "a/b"), content)
            await transfer.put(session, io.BytesIO(b"stream"), "c")
            self.assertEqual(await transfer.get(session, "c"), b"stream")
            with self.assertRaises(TypeError):
                await transfer.put(session, io.StringIO("text"), "d")
            with self.assertRaises(ValueError):
                await transfer.put(session, b"no name")
            listed = await transfer.list_files(session)
            self.assertEqual([(f["path"], f.get("type", "file"), f["bytes"]) for f in listed["files"]], [("a", "directory", 0), ("c", "file", 6)])
            await transfer.remove_file(session, "c")
            self.assertEqual([f["path"] for f in (await transfer.list_files(session, "a"))["files"]], ["a/b"])
            self.assertIn("session:output.txt", [f["path"] for f in (await transfer.list_files(session, "session:"))["files"]])

    @with_daemon
    async def test_errors_have_kinds(self, client, daemon):
        with tempfile.TemporaryDirectory() as work:
            session = await new_session(client, work)
            await transfer.put(session, b"old", "a")
            await self.check_kind("file_exists", transfer.put(session, b"new", "a"))
            self.assertEqual(await transfer.get(session, "a"), b"old")
            await self.check_kind("no_file", transfer.get(session, "b"))
            await self.check_kind("no_file", transfer.remove_file(session, "b"))
            await self.check_kind("no_access", transfer.put(session, b"x", "../b"))
            await self.check_kind("no_access", transfer.get(session, "/etc/passwd"))
            await self.check_kind("no_access", transfer.put(session, b"x", "session:b"))

    @with_daemon
    async def test_a_file_that_changes_is_an_error(self, client, daemon):
        with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as local:
            session = await new_session(client, work)
            path = os.path.join(work, "a")
            with open(path, "wb") as file:
                file.write(b"x" * (2 * transfer.PIECE))

            def grow(offset):
                with open(path, "ab") as file:
                    file.write(b"y")

            await self.check_kind("file_changed", transfer.get(session, "a", os.path.join(local, "a"), on_progress=grow))
            self.assertEqual(os.listdir(local), [])

    @with_daemon
    async def test_a_cancelled_put_leaves_nothing(self, client, daemon):
        with tempfile.TemporaryDirectory() as work:
            session = await new_session(client, work)
            started = asyncio.Event()
            task = asyncio.ensure_future(transfer.put(session, b"x" * (20 * transfer.PIECE), "a", on_progress=lambda _: started.set()))
            await started.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual(os.listdir(work), [])

    @with_daemon
    async def test_a_name_that_is_not_utf8_can_be_used(self, client, daemon):
        if sys.platform != "linux":
            self.skipTest("only Linux has such names")
        with tempfile.TemporaryDirectory() as work:
            session = await new_session(client, work)
            with open(os.path.join(os.fsencode(work), b"caf\xe9"), "wb") as file:
                file.write(b"latin")
            (listed,) = (await transfer.list_files(session))["files"]
            self.assertEqual((listed["path"], listed["name"]), ("bytes:caf%E9", "caf\ufffd"))
            self.assertEqual(await transfer.get(session, listed["path"]), b"latin")


if __name__ == "__main__":
    unittest.main()
