"""The user's side of a farm: send requests to the workers of one target, and send a request again if its worker
died.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Self

from ...errors import ExecutionError, InputError, report
from ...runtime.artifact import sign
from .message import VERSION, other_version, signed, version
from .worker import ANYONE, TIMEOUT, distributed, unreachable, work

PATIENCE = 60.0  # seconds without any worker, after which a farm is given up
DEATHS = 20  # workers that may die of one request; Dask itself sends it to four before it asks us
_TICK = 0.5  # seconds between looks at the workers


class Farm:
    """The workers of a scheduler whose tag is `tag`: the text of a target, or `ANYONE` for all.

    `key` is bytes, a file of them, or None for this user's; `security` as in `worker.connection`. Raises `InputError`
    if no scheduler answers or no worker has the tag, `MissingExtra` without Dask.
    """

    def __init__(
        self,
        address: str,
        tag: str = ANYONE,
        key: sign.Key | None = None,
        security: Any = None,
        patience: float = PATIENCE,
    ) -> None:
        self.address, self.tag, self.patience = address, tag, patience
        self._ended = threading.Event()  # since it was looked at last
        self._key = None if key is None else sign.key_bytes(key)
        dask = distributed()
        options = {} if security is None else {"security": security}
        try:
            self._client: Any = dask.Client(address, timeout=TIMEOUT, set_as_default=False, **options)
        except Exception as error:  # Dask's errors for this have no class in common
            raise unreachable(address, error) from None
        try:
            if not self.workers():
                raise InputError(self._no_worker())
        except BaseException:
            self.close()
            raise

    @property
    def key(self) -> bytes:
        """The key that signs requests. If the user has none yet, it is made on first use."""
        if self._key is None:
            self._key = sign.make_user_key()
        return self._key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect from the scheduler. Waiting requests are dropped; the workers stay."""
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)

    def all_workers(self) -> dict[str, list[str]]:
        """Return the tags of each worker that has our version, by the worker's name."""
        return {
            name: [tag for tag in tags if tag not in (ANYONE, version())]
            for name, tags in self._all_tags().items()
            if version() in tags
        }

    def other_versions(self) -> dict[str, str]:
        """Return the versions of the workers that have another version than we have, by name. They get no work."""
        return {
            name: next((tag for tag in tags if tag.startswith(VERSION)), "an older version")
            for name, tags in self._all_tags().items()
            if version() not in tags
        }

    def _all_tags(self) -> dict[str, list[str]]:
        """Return the Dask resources of each minitvm worker, by name."""
        try:
            infos = self._client.scheduler_info(n_workers=-1)["workers"].values()
        except Exception as error:
            raise self._lost(error) from None
        return {str(info["name"]): list(info["resources"]) for info in infos if ANYONE in info.get("resources", {})}

    def workers(self) -> list[str]:
        """Return the names of the workers that have the tag."""
        return [name for name, tags in self.all_workers().items() if self.tag in (*tags, ANYONE)]

    def run(self, function: str, arguments: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
        """Run `function` ("module:function") for each argument; yield (number, result) as the results arrive.

        Raises `ExecutionError` if the scheduler or the last worker disappears and does not come back, and for a request
        that killed `DEATHS` workers. Raises `InputError` for a request that a worker refused.
        """
        requests = [signed(function, argument, self.key) for argument in arguments]
        deaths: Counter[int] = Counter()  # of workers, by request
        running = {self._submit(request): number for number, request in enumerate(requests)}
        seen = time.monotonic()
        try:
            while running:
                ended = [future for future in running if future.done()]
                for future in ended:
                    number = running.pop(future)
                    if future.status == "finished":
                        yield number, self._opened(future.result())
                        continue
                    deaths[number] += self._died(future)
                    if deaths[number] >= DEATHS:
                        raise ExecutionError(
                            f"{deaths[number]} workers of {self.address} died of one request; it is given up"
                        )
                    running[self._submit(requests[number])] = number
                if ended or self.workers():
                    seen = time.monotonic()
                if not ended:
                    if time.monotonic() - seen > self.patience:
                        raise ExecutionError(
                            f"{self._no_worker()}\n  {len(running)} requests waited {self.patience:g} s"
                        )
                    self._wait()
        finally:
            with contextlib.suppress(Exception):
                self._client.cancel(list(running))

    def _submit(self, request: bytes) -> Any:
        try:
            future = self._client.submit(work, request, pure=False, resources={self.tag: 1, version(): 1})
        except Exception as error:
            raise self._lost(error) from None
        future.add_done_callback(lambda _: self._ended.set())
        return future

    def _wait(self) -> None:
        self._ended.wait(_TICK)
        self._ended.clear()
        if self._client.status != "running":
            raise self._lost(None)

    def _died(self, future: Any) -> int:
        """Return how many workers died of a request, one after the other. Raises if it failed for another reason."""
        if future.status != "error":  # cancelled or lost: the scheduler that knew it is gone
            raise self._lost(None)
        error = future.exception()
        if not isinstance(error, distributed().KilledWorker):
            raise ExecutionError(f"a worker of {self.address} cannot do its work: {type(error).__name__}: {error}")
        return int(error.allowed_failures) + 1  # the scheduler's setting, 3 unless somebody changed it

    def _opened(self, reply: bytes) -> bytes:
        if reply[:1] != b"\0":
            raise InputError(f"a worker of {self.address} refused: {reply[1:].decode()}")
        return reply[1:]

    def _lost(self, error: BaseException | None) -> ExecutionError:
        why = f" ({error})" if error is not None and str(error) else ""
        return ExecutionError(f"the scheduler at {self.address} is gone{why}; what was finished is kept")

    def _no_worker(self) -> str:
        others = self.other_versions()
        if others and not self.all_workers():
            found = "; ".join(f"{name}: {theirs}" for name, theirs in sorted(others.items()))
            return other_version(found, f"each worker at {self.address}")
        tags = sorted({tag for tags in self.all_workers().values() for tag in tags})
        if self.tag == ANYONE:
            return f"no worker of minitvm at {self.address}: start some with `minitvm worker {self.address}`"
        return report(
            f"no worker at {self.address} has this target",
            wanted=self.tag,
            found="; ".join(tags) or "no worker of minitvm at all",
            tries=[
                "--target, with the text that `minitvm worker` prints on the board" if tags else
                f"minitvm worker {self.address} on a board"
            ],
        )  # fmt: skip
