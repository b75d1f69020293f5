"""`make soak`: the programs together for many minutes, killed and started again at random, and counted.

`python tests/campaigns/soak.py --minutes=20 --seed=0` keeps these going at once, on loopback ports of its own:

- a training that is killed (SIGKILL or SIGTERM) again and again, resumed exactly;
- an evaluation that follows it, and inference with a fixed model, both killed too;
- a chief, a worker and a parameter server, of which chief and worker are killed;
- a chief and a worker that train by all-reduce with exact resume, both killed;
- bulk inference by Apache Beam, of which worker processes and now and then the job itself are killed;
- a training and an evaluation that nobody kills, whose memory must stay flat.

It ends with 0 where every count is right: each example predicted once, the global steps as asked.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from bulk_jobs import children_of, is_worker
from clusters import free_addresses
from reader_records import video_record, write_shard
from soak_actor import PATIENCE, Actor, Helpers

from yt8m.runner import checkpoints

FEATURES = ("--feature_names=mean_rgb", "--feature_sizes=8", "--num_classes=6")
TRAIN_SHARDS, TEST_SHARDS, RECORDS = 4, 5, 400
MORE_STEPS = 300  # that are asked for at the end
MAY_GROW = 0.10  # of its memory may a process grow from the second third of its life to the last


def write_data(folder: pathlib.Path) -> list[str]:
    """Shards of videos; returns the ids of those to predict, in order."""
    generator, ids = np.random.default_rng(0), []
    for split, shards in (("train", TRAIN_SHARDS), ("test", TEST_SHARDS)):
        for shard in range(shards):
            rows = generator.normal(size=(RECORDS, 8))
            names = [f"{split}-{shard}-{number}" for number in range(RECORDS)]
            records = [
                video_record(id=[name.encode()], labels=[int(row[:6].argmax())], mean_rgb=row.tolist())
                for name, row in zip(names, rows, strict=True)
            ]
            write_shard(folder / f"{split}{shard}.tfrecord", records)
            ids += names if split == "test" else []
    return ids


def bulk_workers(job: int) -> list[int]:
    """The worker processes of a bulk job."""
    return [pid for pid in children_of(job) if is_worker(pid)]


class Soak:
    """All actors and what is expected of them; a context that leaves no process behind."""

    def __init__(self, folder: pathlib.Path, seed: int) -> None:
        self.folder, self.actors = folder, {}
        self.ids = write_data(folder)
        self._seed, self.predictions, self.jobs = seed, 0, 0
        self._train = ["train", f"--train_data_pattern={folder}/train*", "--batch_size=16", *FEATURES]
        self._train += ["--num_epochs=1000000", "--save_checkpoint_steps=100", "--keep_checkpoints=3"]

    def __enter__(self) -> Soak:
        return self

    def __exit__(self, *unused: object) -> None:
        for actor in self.actors.values():
            actor.abandon()

    def begin(self) -> None:
        """Trains the model that inference uses, then starts everything."""
        run, test = self.folder / "run", f"{self.folder}/test*"
        self._add("teacher", [*self._train, f"--train_dir={self.folder}/fixed", "--max_steps=300"])
        while not self.actors["teacher"].look():
            time.sleep(0.2)
        del self.actors["teacher"]
        self._add("steady training", [*self._train, f"--train_dir={self.folder}/steady"])
        self._add("killed training", [*self._train, f"--train_dir={run}", "--exact_resume"], kills=True)
        words = [f"--train_dir={self.folder}/fixed", f"--input_data_pattern={test}", "--batch_size=64"]
        self._add("inference", ["inference", *words, f"--output_file={self.folder}/out.csv"], kills=True)
        self._add("bulk", self._words_of_bulk(), kills=True, helpers=bulk_workers)
        self._cluster("cluster", ("ps", "chief", "worker"))
        self._cluster("all-reduce", ("chief", "worker"), "--exchange=all-reduce", "--exact_resume")
        for name, followed in (("steady evaluation", "steady"), ("killed evaluation", "run")):
            while not checkpoints.steps_in(str(self.folder / followed)):
                self.look()
            words = [f"--train_dir={self.folder / followed}", f"--eval_data_pattern={test}"]
            self._add(name, ["eval", *words], kills=name.startswith("killed"))

    def _words_of_bulk(self) -> list[str]:
        """A job with a folder of its own, which a start after a kill continues."""
        words = ["command_line.cli", "bulk", "infer", f"--model={self.folder}/fixed", f"--input={self.folder}/test*"]
        return [*words, "--batch_size=64", "--resume", f"--output={self.folder}/bulk{self.jobs}"]

    def _cluster(self, folder: str, roles: Sequence[str], *flags: str) -> None:
        jobs = dict(zip(roles, ([each] for each in free_addresses(len(roles))), strict=True))
        for role in roles:
            spec = {"cluster": jobs, "task": {"type": role, "index": 0}}
            words = [*self._train, f"--train_dir={self.folder}/{folder}", "--stall_timeout=300", *flags]
            self._add(f"{folder} {role}", words, kills=role != "ps", TF_CONFIG=json.dumps(spec))
            # Without parameter servers each process ends with status 1 if another was killed.
            self.actors[f"{folder} {role}"].follows_others = "ps" not in roles

    def _add(
        self, name: str, words: Sequence[str], kills: bool = False, helpers: Helpers | None = None, **variables: str
    ) -> None:
        draw = random.Random(f"{self._seed} {name}") if kills else None
        self.actors[name] = Actor(name, words, draw, variables, helpers)

    def look(self) -> None:
        """One second."""
        for name, actor in self.actors.items():
            before = actor.ends
            is_done = actor.look()
            if is_done and name == "inference":
                self.check_predictions()
            if is_done and name == "bulk":
                self.check_bulk()
                actor.words = self._words_of_bulk()
            if actor.ends > before:
                actor.start()
        time.sleep(1)

    def check_bulk(self) -> None:
        """Each example exactly once, in a file for each shard."""
        files = sorted((self.folder / f"bulk{self.jobs}").glob("*.csv"))
        rows = [line.partition(",")[0] for path in files for line in path.read_text().splitlines()[1:]]
        assert (rows, len(files)) == (self.ids, TEST_SHARDS)
        self.jobs += 1

    def check_predictions(self) -> None:
        """Each example exactly once, in order."""
        lines = (self.folder / "out.csv").read_text().splitlines()
        assert [line.partition(",")[0] for line in lines[1:]] == self.ids
        (self.folder / "out.csv").unlink()
        self.predictions += 1

    def end(self) -> dict[str, Any]:
        """Stops all, trains each run to a step that is asked for, and counts."""
        for name in ("steady evaluation", "killed evaluation"):
            self.actors.pop(name).stop()
        self.actors["inference"].finish()
        self.check_predictions()
        del self.actors["inference"]
        bulk = self.actors["bulk"]
        bulk.finish()
        self.check_bulk()
        del self.actors["bulk"]
        found: dict[str, Any] = {"whole prediction files": self.predictions, "whole bulk jobs": self.jobs}
        found["workers of bulk jobs killed"] = bulk.helpers_killed
        for name, folder in (("steady training", "steady"), ("killed training", "run")):
            asked = max(checkpoints.steps_in(str(self.folder / folder))) + MORE_STEPS
            self.actors.pop(name).finish(f"--max_steps={asked}")
            found[f"{name}, step"] = self._reached(folder, asked, asked)
        found["cluster, step"] = self._end_cluster("cluster", ("worker", "chief", "ps"))
        found["all-reduce, step"] = self._end_cluster("all-reduce", ("worker", "chief"))
        return found

    def _end_cluster(self, folder: str, names: Sequence[str]) -> int:
        roles = [self.actors[f"{folder} {role}"] for role in names]
        for actor in roles:
            actor.spare()
            actor.stop()
        asked = max(checkpoints.steps_in(f"{self.folder}/{folder}")) + MORE_STEPS
        for actor in reversed(roles):
            actor.start(f"--max_steps={asked}")
        deadline = time.monotonic() + PATIENCE
        waiting = list(roles)
        while waiting and time.monotonic() < deadline:
            waiting = [actor for actor in waiting if not actor.look()]
            time.sleep(0.5)
        assert not waiting, f"{[actor.name for actor in waiting]} do not end"
        return self._reached(folder, asked, asked + 1)  # the other replica may be within a step

    def _reached(self, folder: str, least: int, most: int) -> int:
        newest = checkpoints.newest_readable(str(self.folder / folder))
        step = checkpoints.step_of(newest or "")
        assert least <= step <= most, f"{folder}: step {step}, asked for {least}"
        return step


def check_memory(actors: Sequence[Actor]) -> Iterator[str]:
    """A line for each process that lived long enough.

    Raises:
      AssertionError: one that nobody kills has grown. The lives of the others are short, and mostly their start.
    """
    for actor in actors:
        if grown := actor.growth():
            seconds, part = grown
            top = max(map(max, filter(None, actor.memory))) / 1e6
            yield f"{actor.name}: {top:.0f} MB at most, {part:+.1%} over {seconds} s; {actor.kills} kills"
            assert actor.kills or part < MAY_GROW, f"{actor.name} grows: {part:+.1%} of its memory"


def main() -> int:
    """Runs it; returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # through the `with`, like Ctrl-C
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"  # not the home of who runs this
        soak = stack.enter_context(Soak(folder, given.seed))
        soak.begin()
        actors, deadline = list(soak.actors.values()), time.monotonic() + 60 * given.minutes
        while time.monotonic() < deadline:
            soak.look()
        for what, count in soak.end().items():
            print(f"{what}: {count}")
        print(f"kills: {sum(actor.kills for actor in actors)}")
        for line in check_memory(actors):
            print(line)
    print("every count is right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
