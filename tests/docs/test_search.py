"""The search of the built site, in a browser: what users ask is answered by the first hits."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import browser
import pytest
from docs.command_blocks import ROOT

# {what a user types: parts of pages that answer it}
ANSWERS = {
    "learning rate schedule": (
        "faq.html#how-do-i-set-the-learning-rate-and-its-schedule",
        "training.html#learning-rate",
    ),
    "two GPUs": ("faq.html#how-do-i-train-on-two-gpus", "training.html#several-towers"),
    "why is my mAP low": ("faq.html#why-is-my-map-low", "report.html#where-it-fails"),
    "class weights": ("faq.html#my-classes-are-very-unequal-class-weights", "training.html#weights-of-classes"),
    "resume": ("faq.html#how-do-i-resume-a-training", "training.html#resuming"),
    "where are logs": ("faq.html#where-are-the-logs",),
    "wandb": ("mlflow.html#weights-biases", "faq.html#how-do-i-log-to-mlflow-or-wandb"),
    "predict on a folder": ("faq.html#how-do-i-predict-on-a-folder-of-videos", "own_videos.html#predict"),
    "embeddings": ("faq.html#how-do-i-get-embeddings-of-a-hidden-layer", "python.html#embeddings"),
    "freeze layers": ("faq.html#how-do-i-freeze-layers", "classes.html#training-only-what-is-new"),
    "early stopping": ("faq.html#how-do-i-stop-early", "training.html#validation-while-training"),
    "memory too high": ("faq.html#it-runs-out-of-memory", "troubleshooting.html#speed-and-memory"),
    "fine tune": ("faq.html#how-do-i-fine-tune-a-trained-model", "tutorial.html#fine-tune-on-classes-of-your-own"),
    "use a GPU": ("faq.html#do-i-need-a-gpu-and-how-do-i-use-it",),
    "batch size": ("faq.html#how-do-i-choose-the-batch-size",),
    "nan loss": ("faq.html#the-loss-is-nan-or-infinite", "troubleshooting.html#numbers"),
    "export to onnx": ("deploy.html", "faq.html#how-do-i-deploy-it-without-tensorflow"),
    "multiple machines": ("faq.html#how-do-i-train-on-several-machines", "training.html#several-processes"),
    "pandas": ("faq.html#how-do-i-use-it-from-python-with-pandas",),
    "label studio": ("labels.html",),
}
# Further ones, a line each: what is typed, then beginnings of the addresses that answer it.
FURTHER = pathlib.Path(__file__).with_name("searched_words.txt")
# The links of the first three pages that are found: of each, those to the page and to its parts that are shown.
FIRST = """
return [...document.querySelectorAll('.md-search-result__item')].slice(0, 3).flatMap(
    item => [...item.querySelectorAll('a.md-search-result__link')].map(link => link.href))
"""
DONE = "return /match|Treffer|result/i.test(document.querySelector('.md-search-result__meta').textContent)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed; make docs installs it")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", f"--site-dir={folder}"]
    subprocess.run(words, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    with browser.served(folder) as (address, _):
        yield address


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_the_first_hits_answer_what_users_type(site: str, tmp_path: pathlib.Path) -> None:
    further = [line.split("|") for line in FURTHER.read_text().splitlines()]
    unanswered = {}
    with browser.driven(tmp_path) as page:
        for question, answers in ANSWERS.items():
            links = first_links(page, site, question)
            if not any(f"/users/{answer}" in link for answer in answers for link in links):
                unanswered[question] = links
        for question, *answers in further:
            links = first_links(page, site, question)
            if not any(f"/{answer}" in link for answer in answers for link in links):
                unanswered[question] = links
    assert unanswered == {}


def first_links(page: browser.Page, site: str, question: str) -> list[str]:
    page.open(f"{site}/404.html?q={question.replace(' ', '%20')}")
    page.wait_for(DONE)
    links: list[str] = page.run(FIRST)
    return [re.sub(r"\?h=[^#]*", "", link) for link in links]
