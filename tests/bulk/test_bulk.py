"""The command lines of `yt8m bulk`, in this process: help, wrong usage, folders. Beam is not started."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import sys

import pytest

from yt8m import storage
from yt8m.bulk import bulk_config
from yt8m.command_line import bulk, cli
from yt8m.errors import UsageError, install_advice


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["bulk", *words]) == 2
    return capsys.readouterr().err


def test_the_overview_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bulk", "--help"]) == 0
    text = capsys.readouterr().out
    assert re.findall(r"^  yt8m bulk (\w+) +[A-Z]", text, re.MULTILINE) == ["infer", "rank", "eval", "extract"]


def test_help_of_a_command_needs_neither_beam_nor_tensorflow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(SystemExit) as ended:
        cli.main(["bulk", "rank", "--help=all"])
    assert ended.value.code == 0
    assert "--segment_max_pred=N" in capsys.readouterr().out


def test_wrong_words_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown command yt8m bulk infr" in refused(capsys, "infr")
    assert "infer" in refused(capsys, "infr")
    assert "--out is missing" in refused(capsys, "infer", "--model=m", "--input=x")
    assert "segment_max_pred" in refused(
        capsys, "infer", "--model=m", "--input=x", "--output=o", "--segment_max_pred=1"
    )
    assert "--workers" in refused(capsys, "infer", "--model=m", "--input=x", "--output=o", "--workers=0")


def test_a_missing_beam_is_named_with_its_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    text = refused(capsys, "eval", "--model=m", "--input=x", "--output=o")
    assert "yt8m bulk eval needs apache-beam" in text
    assert install_advice("beam") in text


def test_another_runner_is_refused_before_anything_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")
    words = ["eval", "--model=m", "--input=x", f"--output={tmp_path}/out"]
    assert "--runner=NoRunner: Unexpected pipeline runner: NoRunner" in refused(capsys, *words, "--runner=NoRunner")
    assert not (tmp_path / "out").exists()


def test_options_that_beam_does_not_have_are_named(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")
    words = ["eval", "--model=m", "--input=x", f"--output={tmp_path}/out", "--"]
    text = refused(capsys, *words, "--project=p", "--regoin=europe-west1", "--temp_locaton=gs://b/t")
    assert "Beam has no option --regoin; did you mean --region? Write the options of yt8m bulk before --" in text
    assert "Beam has no option --regoin; did you mean --region?" in refused(capsys, *words, "--regoin", "europe-west1")
    assert "Beam has no option --batch_size" in refused(capsys, *words, "--batch_size=3")
    assert "Beam has no option shards. Write" in refused(capsys, *words, "shards", "--region=europe-west1")
    text = refused(capsys, *words, "--direct_num_workers=a")
    assert text == "yt8m bulk: error: Beam refuses an option: argument --direct_num_workers: invalid int value: 'a'\n"
    assert not (tmp_path / "out").exists()


def test_options_of_dataflow_are_known_and_those_of_a_job_server_may_be_unknown() -> None:
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")
    beam_runs = bulk._import_bulk_module("beam_runs")
    page = pathlib.Path(__file__).parents[2] / "docs/users/bulk.md"
    words = re.findall(
        r"(?<= )(--\S+)", page.read_text().partition("--runner=DataflowRunner -- ")[2].partition("```")[0]
    )
    assert len(words) >= 5
    beam_runs.check_options("DirectRunner", 2, words)
    beam_runs.check_options("FlinkRunner", 2, ["--object_reuse"])


def test_a_missing_client_of_dataflow_is_named_with_its_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")
    beam_runs = bulk._import_bulk_module("beam_runs")

    def without_client(runner: str) -> None:
        raise ImportError(f"no client of {runner}")

    monkeypatch.setattr(beam_runs, "create_runner", without_client)
    with pytest.raises(UsageError, match=r"--runner=DataflowRunner: .*pip install -e '\.\[dataflow\]'"):
        beam_runs.check_options("DataflowRunner", 2, [])


def test_words_after_two_dashes_are_beams() -> None:
    assert bulk._split_at_dashes(["infer", "--model=m", "--", "--region=x", "--"]) == (
        ["infer", "--model=m"],
        ["--region=x", "--"],
    )
    assert bulk._split_at_dashes(["infer"]) == (["infer"], [])


def test_paths_become_absolute_and_buckets_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.chdir(tmp_path)
    config = bulk_config.with_absolute_paths(
        bulk_config.RankBulk(model="runs/a", data="d/*", out="gs://b/out", candidates_from="c.csv")
    )
    assert config == bulk_config.RankBulk(
        model=f"{tmp_path}/runs/a", data=f"{tmp_path}/d/*", out="gs://b/out", candidates_from=f"{tmp_path}/c.csv"
    )


def test_absolute_paths_keep_their_commas(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    place = tmp_path / "my,folder"
    place.mkdir()
    for name in ("a,b.tfrecord", "c.tfrecord"):
        (place / name).touch()
    monkeypatch.chdir(place)
    config = bulk_config.with_absolute_paths(
        bulk_config.InferBulk(model="runs/1,2", data="a,b.tfrecord,c*", out="out,1")
    )
    assert (config.model, config.out) == (f"{place}/runs/1,2", f"{place}/out,1")
    assert dict(storage.paths_by_pattern(config.data)) == {
        f"{place}/a,b.tfrecord": [f"{place}/a,b.tfrecord"],
        f"{place}/c*": [f"{place}/c.tfrecord"],
    }


def test_settings_reach_the_reader_of_a_run() -> None:
    given = bulk_config.RankBulk(
        model="m", data="i", out="o", nan_policy="zero", max_bad_records=3, top_k=7, segment_context=2
    )
    config = given.inference_config()
    assert (config.nan_policy, config.max_bad_records, config.top_k) == ("zero", 3, 7)
    assert (config.segment_labels, config.segment_context) == (True, 2)
    plain = bulk_config.InferBulk(model="m", data="i", out="o").inference_config()
    assert (plain.segment_labels, plain.batch_size, plain.most_in_batch) == (False, None, 512)
    assert json.dumps(bulk_config.COMMANDS["eval"].result) == '"report.json"'
