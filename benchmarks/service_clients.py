"""Clients of a service in a process of their own: python -m benchmarks.service_clients URL CLIENTS SHARD REQUESTS."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from yt8m.records import shards


class Answers(NamedTuple):
    """What the clients measured: seconds of all requests, their own CPU seconds, and the latency of each request."""

    seconds: float
    cpu: float
    latencies: list[float]


def ask(url: str, clients: int, records: Sequence[bytes]) -> Answers:
    """Divides the records among clients that each keep one connection and wait for each answer."""

    async def ask_all() -> list[list[float]]:
        return await asyncio.gather(*(_client(url, records[start::clients]) for start in range(clients)))

    cpu, began = time.process_time(), time.perf_counter()
    latencies = asyncio.run(ask_all())
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return Answers(seconds, cpu, [latency for of_client in latencies for latency in of_client])


async def _client(url: str, records: Sequence[bytes]) -> list[float]:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = "POST /predict HTTP/1.1\r\nHost: bench\r\nContent-Type: application/octet-stream\r\nContent-Length: "
    latencies = []
    for record in records:
        began = time.perf_counter()
        writer.write(f"{head}{len(record)}\r\n\r\n".encode() + record)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert answer.startswith(b"http/1.1 200"), answer
        await reader.readexactly(int(answer.partition(b"content-length: ")[2].split()[0]))
        latencies.append(time.perf_counter() - began)
    writer.close()
    await writer.wait_closed()
    return latencies


if __name__ == "__main__":
    address, number, path, requests = sys.argv[1:]
    json.dump(ask(address, int(number), list(itertools.islice(shards.read_shard(path), int(requests)))), sys.stdout)
