"""A Ray cluster as the engine of a job: every task may run on another machine.

Ray is told to retry nothing. A worker or node that is lost makes its task either a failed one or,
where it draws no noise, one that is attempted again under another name; both are counted and said. An
answer is known by the attempt that it belongs to, so a worker that was given up and answers late is
not heard. Task names and events say nothing: Ray keeps them in logs of its own.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.errors import SfumatoError, needs_extra
from sfumato.files import NO_FOLLOW
from sfumato.jobs._engine import Answer, Batch, Needs, NodeTally, Task, attempt, lost_sentence
from sfumato.media import MediaError

ATTEMPTS = 3
_LOOK = 5.0  # seconds between two looks at the cluster
_PATIENCE = 60.0  # seconds that a cluster may be without a single node for the task
_NONCE = 32


@dataclass(slots=True)
class _Pending:
    number: int
    attempt: int
    deadline: float


class RayCluster:
    """``ray``: the cluster that this machine belongs to; ``ray://HOST:PORT``: one elsewhere.

    ``at_once`` bounds how many tasks run at the same time (else all that the cluster has room for).
    """

    remote = True

    def __init__(self, address: str = "ray", at_once: int | None = None) -> None:
        with needs_extra("ray", "ray", "The engine ray"):
            import ray
        self._ray: Any = ray
        self._at_once = at_once
        self._tallies: dict[str, NodeTally] = {}
        if ray.is_initialized():
            return
        where = address if "://" in address else "auto"
        try:
            ray.init(where, log_to_driver=False, logging_level=logging.CRITICAL)
        except Exception as error:  # noqa: BLE001 - Ray raises a dozen kinds, all of them mean this
            raise SfumatoError(
                f"Expected a running Ray cluster for --engine {address}, could not join one "
                f"({type(error).__name__}): start it (ray start --head), or name its head as "
                "ray://HOST:10001."
            ) from None

    def nodes(self) -> tuple[NodeTally, ...]:
        return tuple(sorted(self._tallies.values(), key=lambda each: each.name))

    def prepare(self, folder: Path, warm: Callable[[], Any] | None, needs: Needs) -> None:
        """Probe ``folder`` and get every node ready (models), one task a node and all at once.

        A nonce goes into a file of the folder; every node says what it reads there and writes its
        own, and no link is followed on either side.
        """
        ray = self._ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = self._fitting(needs)
        if not nodes:
            raise self._no_room(needs)
        probe, nonce = folder / f"probe-{secrets.token_hex(8)}", secrets.token_hex(_NONCE)
        _write_new(probe, nonce)
        asked = {}
        for number, node in enumerate(nodes):
            own = folder / f"{probe.name}-{number}"
            pinned = self._remote(_greet, Needs(0, 0)).options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            )
            asked[pinned.remote(str(probe), str(own), warm)] = (node, own)
        for reference, (node, own) in asked.items():
            name = self._name(node)
            try:
                read, written, version, failure = ray.get(reference)
            except ray.exceptions.RayError:
                continue  # it has gone meanwhile, and takes no items either
            if failure:
                raise SfumatoError(
                    f"Expected node {name} to be ready for work, it is not: {failure}"
                )
            if read != nonce or not written or _read_plain(own) != written:
                raise MediaError(
                    f"Expected every node to read and write the folder of the release, node {name} does "
                    "not: it must be mounted at the same path everywhere. Nothing was read."
                )
            if version != __version__:
                raise SfumatoError(
                    f"Expected sfumato {__version__} on every node, node {name} has {version}: "
                    "install the same version everywhere."
                )
            self._tally(node["NodeID"], name)
        if not self._tallies:
            raise self._no_room(needs)

    def run(
        self,
        work: Callable[..., Any],
        count: int,
        task: Task,
        *,
        timeout: float | None = None,
        repeatable: bool = False,
        needs: Needs = Needs(),  # noqa: B008 - frozen
    ) -> Generator[list[Answer], None, None]:
        ray, item = self._ray, self._remote(_item, needs)
        waiting, again = iter(range(count)), deque[tuple[int, int]]()
        pending: dict[Any, _Pending] = {}
        batch, room, looked, starved = Batch(), 0, float("-inf"), 0.0
        most = ATTEMPTS if repeatable else 1
        following = next(waiting, None)
        try:
            while pending or again or following is not None or batch.answers:
                if time.monotonic() - looked > _LOOK:
                    room = self._room(needs)
                    starved = 0.0 if room else starved or time.monotonic()
                    looked = time.monotonic()
                    if starved and time.monotonic() - starved > _PATIENCE:
                        raise self._no_room(needs)
                # Two a place: the next task is there when one ends. With a timeout, what waits must
                # not be counted as working.
                depth = room if timeout else 2 * room
                while len(pending) < (self._at_once or depth) and (again or following is not None):
                    if again:
                        number, turn = again.popleft()
                    else:
                        assert following is not None
                        number, turn, following = following, 1, next(waiting, None)
                    reference = item.remote(work, task(number, turn))
                    deadline = time.monotonic() + (timeout or float("inf"))
                    pending[reference] = _Pending(number, turn, deadline)
                for reference in self._finished(pending, batch):
                    this = pending.pop(reference)
                    late = this.deadline <= time.monotonic()
                    answer = self._answer(reference, this, late=late)
                    if answer is None and this.attempt < most and not late:
                        again.append((this.number, this.attempt + 1))
                        continue
                    batch.add(answer or self._lost(this, late=late))
                if batch.due or (batch.answers and not pending and not again):
                    yield batch.take()
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)

    def _finished(self, pending: dict[Any, _Pending], batch: Batch) -> list[Any]:
        """Tasks that have an answer, were lost, or ran out of time (these are ended here)."""
        if not pending:
            time.sleep(0.1)
            return []
        soonest = min(each.deadline for each in pending.values()) - time.monotonic()
        patience = max(0.0, min(_LOOK, batch.patience, soonest))
        ready, _ = self._ray.wait(list(pending), num_returns=1, timeout=patience, fetch_local=False)
        if ready and len(pending) > 1:  # and whatever else is there by now
            ready, _ = self._ray.wait(
                list(pending), num_returns=len(pending), timeout=0, fetch_local=False
            )
        late = [
            reference
            for reference, each in pending.items()
            if each.deadline <= time.monotonic() and reference not in ready
        ]
        for reference in late:
            self._ray.cancel(reference, force=True)
        return [*ready, *late]

    def _answer(self, reference: Any, this: _Pending, *, late: bool) -> Answer | None:
        """What a finished task answered; None if it was lost."""
        if late:
            return None
        try:
            value, failure, node, name, seconds = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._tally("", f"lost ({_kind(error)})").lost += 1
            return None
        tally = self._tally(node, name)
        tally.answered += 1
        tally.seconds += seconds
        return Answer(this.number, value, failure, this.attempt)

    def _lost(self, this: _Pending, *, late: bool) -> Answer:
        how = "took too long and was ended" if late else f"was lost {this.attempt} times"
        return Answer(this.number, failure=lost_sentence(how), attempt=this.attempt)

    def _remote(self, function: Callable[..., Any], needs: Needs) -> Any:
        return self._ray.remote(
            num_cpus=needs.cpus,
            num_gpus=needs.gpus,
            memory=needs.memory or None,
            max_retries=0,  # no second draw of noise that nobody counts
            name="sfumato",
            enable_task_events=False,
        )(function)

    def _fitting(self, needs: Needs) -> list[dict[str, Any]]:
        return [
            node
            for node in self._ray.nodes()
            if node["Alive"] and _places(node["Resources"], needs) >= 1
        ]

    def _room(self, needs: Needs) -> int:
        """How many tasks of these needs the cluster runs at once."""
        return sum(_places(node["Resources"], needs) for node in self._fitting(needs))

    def _no_room(self, needs: Needs) -> SfumatoError:
        gpus = f", {needs.gpus:g} GPUs" if needs.gpus else ""
        return SfumatoError(
            f"Expected a node with {needs.cpus:g} CPUs{gpus} and {needs.memory / 2**30:.1f} GB of memory "
            "in the cluster, found none: start one (ray start --address=HEAD). What is done is kept."
        )

    def _tally(self, node: str, name: str) -> NodeTally:
        return self._tallies.setdefault(node or name, NodeTally(name))

    @staticmethod
    def _name(node: dict[str, Any]) -> str:
        return f"{node.get('NodeManagerHostname') or 'node'}/{node['NodeID'][:6]}"


def _places(resources: dict[str, float], needs: Needs) -> int:
    wanted = {"CPU": needs.cpus, "GPU": needs.gpus, "memory": needs.memory}
    return min(
        (int(resources.get(kind, 0) // much) for kind, much in wanted.items() if much), default=1
    )


def _kind(error: Exception) -> str:
    return type(error).__name__


def _item(work: Callable[..., Any], task: tuple[Any, ...]) -> tuple[Any, str, str, str, float]:
    """On a node: one task, who did it, and in how many seconds."""
    began = time.monotonic()
    value, failure = attempt(work, task)
    return value, failure, *_here(), time.monotonic() - began


def _here() -> tuple[str, str]:
    import ray

    node = ray.get_runtime_context().get_node_id()
    return node, f"{os.uname().nodename if hasattr(os, 'uname') else 'node'}/{node[:6]}"


def _greet(probe: str, own: str, warm: Callable[[], Any] | None) -> tuple[str, str, str, str]:
    """On a node: what the probe holds, a nonce of its own beside it, its version, its readiness."""
    try:
        read = _read_plain(Path(probe))
        written = secrets.token_hex(_NONCE)
        if read:
            _write_new(Path(own), written)
    except OSError:
        return "", "", __version__, ""
    _, failure = attempt(warm, ()) if warm is not None and read else (None, "")
    return read, written, __version__, failure


def _read_plain(path: Path) -> str:
    """The text of a file, no link followed; nothing where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | NO_FOLLOW)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as stream:
        return stream.read(4 * _NONCE).decode("ascii", "replace")


def _write_new(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
