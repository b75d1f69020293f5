"""Renders the Jinja2 templates in yt8m/data, with the script that sorts and searches the tables of a page."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from typing import Any

from yt8m.errors import missing_extra


def environment(purpose: str, **settings: Any) -> Any:
    """The Jinja2 environment of the templates in yt8m/data.

    Args:
      purpose: what needs Jinja2, for the error message.
      settings: further settings of Jinja2.
    """
    try:
        import jinja2
    except ImportError as error:
        raise missing_extra(purpose, "jinja2", "reports") from error
    loader = jinja2.PackageLoader("yt8m", "data")
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, **settings)


def render(template: str, **values: Any) -> str:
    """The text of a page; raises `UsageError` if Jinja2 is not installed.

    Args:
      template: name of a file in yt8m/data. It gets the variables `script`, the text of report.js, and
        `hash_of_script`, with which the policy in the head of the page allows this script alone.
    """
    script = (importlib.resources.files("yt8m") / "data" / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    templates = environment("the report", trim_blocks=True, lstrip_blocks=True)
    return str(templates.get_template(template).render(script=script, hash_of_script=digest, **values))
