"""Links to videos: only where a page may link, and the log says what became of every row."""

from __future__ import annotations

import csv
import logging
import pathlib
import re
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import report_runs

from yt8m.command_line import cli
from yt8m.errors import RunError, UsageError
from yt8m.reports import media_links
from yt8m.reports.media_links import link_to, read

PAGE = "runs/moe/eval/report.html"
WEB = ["http://a", "https://a.b/c?d=e&f#g", "HTTPS://a"]
RELATIVE = ["thumbs/a.jpg", "../a:b.jpg?c", "a", "?a:b", "./x:y"]


@pytest.mark.parametrize("address", [*WEB, *RELATIVE])
def test_pages_of_the_web_and_relative_paths_are_linked_as_they_are(address):
    assert link_to(address, PAGE) == address
    assert link_to(f" {address} ", PAGE) == address


@pytest.mark.parametrize("page", ["/data/runs/eval/report.html", "/report.html"])
@pytest.mark.parametrize("path", ["/data/videos/a.mp4", "/data/runs/eval/b.mp4", "/x/12:30 50%.mp4", "/x/a#b?c.mp4"])
def test_a_path_from_the_root_becomes_relative_to_the_page(path, page):
    link = link_to(path, page)
    resolved = urllib.parse.urlparse(urllib.parse.urljoin(pathlib.Path(page).as_uri(), link))
    assert (resolved.scheme, resolved.query, resolved.fragment) == ("file", "", "")
    assert urllib.parse.unquote(resolved.path) == path
    with pytest.raises(media_links._NoLinkError, match=r"this machine.*bucket"):
        link_to(path, "gs://bucket/report.html")


SCRIPTS = ["javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "vbscript:x"]
OTHERS = ["data:text/html,x", "file:///etc/passwd", "a:b", "blob:x"]


@pytest.mark.parametrize(
    ("addresses", "reason"),
    [
        (["", "  "], "is empty"),
        ([*SCRIPTS, *OTHERS], r"scheme .*http and https"),
        (["//evil.org/a"], r"host .*no scheme"),
        (["http:a", "http://", "https:javascript:alert(1)", "http:/a", "http:///"], "no host"),
        (["java\nscript:a", "\\\\evil\\a", "http:\\\\a", "\x01javascript:x", "\tjavascript:x"], "backslash"),
    ],
)
def test_nothing_else_is_linked(addresses, reason):
    for address in addresses:
        with pytest.raises(media_links._NoLinkError, match=reason):
            link_to(address, PAGE)


@given(st.text())
def test_no_link_has_another_scheme_or_another_host(address):
    """By the rule of the URL standard: controls and spaces around are dropped, tabs and line breaks anywhere."""
    try:
        link = link_to(address, PAGE)
    except media_links._NoLinkError:
        return
    cleaned = link.strip("".join(map(chr, range(33)))).translate(dict.fromkeys(map(ord, "\t\n\r")))
    scheme = cleaned.partition(":")[0].lower()
    assert ":" not in cleaned or scheme in ("http", "https") or set(scheme) & set("/?#")
    assert not cleaned.startswith(("/", "\\"))


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[str, str]]]:
    """The log since the last call, as (level, text)."""
    caplog.set_level(logging.INFO)

    def lines() -> list[tuple[str, str]]:
        found = [(record.levelname, record.getMessage()) for record in caplog.records]
        caplog.clear()
        return found

    return lines


def test_the_log_counts_links_other_videos_and_what_is_left_out(tmp_path: pathlib.Path, told):
    path = tmp_path / "media.csv"
    rows = [
        "https://a,x,v1",
        "javascript:x,x,v2",
        'thumbs/3.jpg,"a, b",v3',
        "https://b,x,other",
        "",
        "short",
        "c:d,,v4",
    ]
    path.write_text("\n".join(["Address,note,id", *rows]))
    assert read(str(path), PAGE, {"v1", "v2", "v3", "v4", "v5"}) == {"v1": "https://a", "v3": "thumbs/3.jpg"}
    (first, second) = told()
    assert first[0] == "WARNING"
    assert re.search("2 addresses .*'javascript:x' in line 3, .*scheme", first[1])
    assert second == ("INFO", f"--media={path}: 2 of the 5 videos on the page are links; 2 rows are of other videos")
    assert read("", PAGE, {"v1"}) == {}
    assert told() == []
    path.write_text("\ufeffid,address\nv1,https://a\n")  # as spreadsheets write it
    assert read(str(path), PAGE, {"v1"}) == {"v1": "https://a"}


def test_a_table_of_other_ids_is_told(tmp_path: pathlib.Path, told):
    path = tmp_path / "media.csv"
    path.write_text("id,address\nclips/v1.mp4,https://a\nclips/v2.mp4,https://b\n")
    assert read(str(path), PAGE, {"v2", "v1"}) == {}
    assert told() == [
        (
            "WARNING",
            f"--media={path}: 0 of the 2 videos on the page are links; none of them is in its 2 rows: "
            "its first id is 'clips/v1.mp4', and a video on the page is 'v1'",
        )
    ]


@pytest.mark.parametrize(
    ("content", "error", "part"),
    [
        (None, UsageError, "no such file"),
        (b"", UsageError, "has no column 'id'; it has: none"),
        (b"id,views\n", UsageError, "has no column 'address'; it has: id, views"),
        (b'id,address\n"v1', RunError, "line 2: this is not (CSV|UTF-8)"),
        (b"id,address\n\xff,a\n", RunError, "line 2: this is not (CSV|UTF-8)"),
    ],
)
def test_a_table_that_cannot_be_read_says_why(tmp_path: pathlib.Path, content, error, part):
    path = tmp_path / "media.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=part):
        read(str(path), PAGE, {"v1"})
    with pytest.raises(error, match=part):
        media_links.check(str(path))


def test_an_evaluation_refuses_a_table_before_it_begins(tmp_path: pathlib.Path, capsys):
    """There is no run either, which would be the next thing to refuse."""
    words = ["eval", f"--train_dir={tmp_path}/run", "--run_once", f"--media={tmp_path}/none.csv"]
    assert cli.main(words) == 2
    assert "--media needs --report" in capsys.readouterr().err
    assert cli.main([*words, "--report"]) == 2
    assert "none.csv: there is no" in capsys.readouterr().err


@pytest.mark.heavy
def test_the_page_links_and_escapes(tmp_path: pathlib.Path):
    report_runs.make_run(tmp_path, 1, num_classes=12)
    rows = [["id", "address"], ["v3", 'https://a/"><script>alert(3)</script>'], ["v4", "javascript:alert(4)"]]
    rows.append(["v5", f'{tmp_path}/a "b".mp4'])
    with (tmp_path / "media.csv").open("w", newline="") as file:
        csv.writer(file).writerows([*rows, [report_runs.HOSTILE, "thumbs/a.jpg"]])
    assert cli.main(["report", str(tmp_path), "--resamples=10", f"--media={tmp_path}/media.csv"]) == 0
    page = (tmp_path / "eval/report.html").read_text()
    assert '<a href="https://a/&#34;&gt;&lt;script&gt;alert(3)&lt;/script&gt;" rel="noreferrer">v3</a>' in page
    assert 'href="thumbs/a.jpg" rel="noreferrer">&#34;&gt;&lt;script&gt;' in page
    assert '<a href="../a%20%22b%22.mp4" rel="noreferrer">v5</a>' in page
    assert "javascript:" not in page
    assert "alert(4)" not in page
    assert page.count("<script") == 1
    assert (tmp_path / "eval/labels_to_check.csv").exists()


@pytest.mark.heavy
def test_the_page_of_an_output_leaves_the_labels_to_check_of_another_alone(tmp_path: pathlib.Path):
    for name, seed in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        report_runs.make_run(tmp_path / name, seed, num_classes=12)
        assert cli.main(["report", f"{tmp_path}/{name}", "--resamples=10", f"--output={tmp_path}/{name}.html"]) == 0
    assert sorted(path.name for path in tmp_path.glob("*.csv")) == [
        "one_labels_to_check.csv",
        "two_labels_to_check.csv",
    ]


def test_addresses_for_other_programs_stay_as_they_are(tmp_path: pathlib.Path):
    (tmp_path / "media.csv").write_text(
        "id,address\nv1,/data/local-files/?d=v1.mp4\nv2,s3://bucket/v2.mp4\nv3,\nv4,x\n"
    )
    found = media_links.read_addresses(str(tmp_path / "media.csv"), {"v1", "v2", "v3"})
    assert found == {"v1": "/data/local-files/?d=v1.mp4", "v2": "s3://bucket/v2.mp4"}
