"""A page of each model for the site: options, figures, recipes, published network, each from where it is declared."""

from __future__ import annotations

import inspect
import re

from recipes import figures, files
from yt8m import models

SITE_FOLDER = "users/models"
_PUBLISHED = re.compile(r"^\| (.*) \| (.*) \| (.*) \|$", re.MULTILINE)
_SPEED_ROW = re.compile(r"^\| train ([A-Z]\w+), batches of (\d+) \| (.*?) \| (.*?) \|$", re.MULTILINE)
_SPEED_PAGE = files.DOCS.parents[1] / "developers" / "speed.md"


def page(name: str) -> str:
    """The page of a model in Markdown, for the folder `SITE_FOLDER` of the site."""
    parts = [f"# {name}", inspect.getdoc(models.get(name)) or "", _figures(name), _trying(name), _options(name)]
    return "\n\n".join([*parts, _network(name), _recipe(name)]) + "\n"


def linked(markdown: str) -> str:
    """The page on models with a link to the page of each model that it describes, as `- **NAME**` or `**NAME**`."""
    names = "|".join(models.built_in_names())
    return re.sub(rf"\*\*({names})\*\*", r"[**\1**](models/\1.md)", markdown)


def with_description(markdown: str, name: str) -> str:
    """The page on models with a line on the model: unless it has one, the first sentence of the class's docstring."""
    if f"**{name}**" in markdown:
        return markdown
    before, heading, rest = markdown.partition(f"## {files.level(name).capitalize()} level\n")
    section, following, others = rest.partition("\n## ")
    listed, last, end = section.rpartition("\n- **")
    bullet, blank, more = end.partition("\n\n")
    line = "\n- **{}**: {}".format(name, " ".join((inspect.getdoc(models.get(name)) or "").split("\n\n")[0].split()))
    return "".join([before, heading, listed, last, bullet.rstrip("\n"), line, blank or "\n", more, following, others])


def _figures(name: str) -> str:
    row = figures.read_table(files.DOCS)[name]
    lines = [
        "## Figures",
        f"It reads {'frames' if files.level(name) == 'frame' else 'one vector for each video'}. The small recipe, on "
        "generated videos ([what that says](../models.md#results-on-sample-data)), by `make recipes`:",
        "| parameters | GAP | training examples/s on two cores |\n|---:|---:|---:|\n"
        f"| {row.parameters:,} | {row.gap:.3f} | {row.speed:,.0f} |",
    ]
    rates = [match for match in _SPEED_ROW.findall(_SPEED_PAGE.read_text()) if match[0] == name]
    for _, batch, rate, memory in rates:
        lines.append(
            f"At the size of YouTube-8M, in batches of {batch}: {rate} training examples/s and a peak of {memory}, on "
            "two cores, by `make bench` ([Speed](../../developers/speed.md))."
        )
    return "\n\n".join(lines)


def _trying(name: str) -> str:
    level = files.level(name)
    return f"""## Try it

```sh
yt8m sample-data --flagfile=recipes/sample_data.flags --level={level} --out=data
yt8m train --flagfile=recipes/small/{name}.flags --train_dir=runs/{name} \\
  --train_data_pattern='data/{level}/train/*.tfrecord'
yt8m eval --train_dir=runs/{name} --eval_data_pattern='data/{level}/validate/*.tfrecord' --run_once
```"""


def _options(name: str) -> str:
    rows = [
        f"| `--{option_name}` | {_shown(option.default)} | {option.help.replace('|', chr(92) + '|')} |"
        for option_name, option in models.hyper_parameters(models.get(name)).items()
    ]
    if not rows:
        return "## Options\n\nNone of its own."
    return "\n".join(["## Options\n", "| flag | default | meaning |", "|---|---|---|", *rows])


def _shown(value: object) -> str:
    return f"`{','.join(map(str, value)) if isinstance(value, tuple) else value}`" if value not in ("", ()) else ""


def _network(name: str) -> str:
    path = files.FOLDER / f"{name}.flags"
    if not path.exists():
        return "## The published network\n\nNone: the network and its sizes are this project's own."
    told = re.search(r"^# Network: (.*?)\n# Reached", path.read_text(), re.MULTILINE | re.DOTALL)
    assert told is not None, f"the recipe of {name} says nothing of its network"
    text = re.sub(r"\n# *", " ", told.group(1)).replace(" Published: ", "\n\nPublished figure: ")
    section = files.DOCS.read_text().partition("### Published networks, exactly")[2]
    rows = [row for row in _PUBLISHED.findall(section) if re.search(rf"\b{name}\b", row[1])]
    table = [f"{code}: {options}." for code, _, options in rows]
    same = [f"The options that make it the network of {line}" for line in table]
    return "\n\n".join(["## The published network", f"Network: {text}", *same])


def _recipe(name: str) -> str:
    shown = [f"## {title}\n\n```text\n{path.read_text()}```" for title, path in files.recipes_of(name).items()]
    return "\n\n".join(shown)
