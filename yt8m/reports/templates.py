"""The pages' templates, with the script that sorts and searches their tables."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from typing import Any

from yt8m.errors import missing_extra


def environment(purpose: str, **settings: Any) -> Any:
    """Jinja2's environment of the templates in yt8m/data.

    Args:
      purpose: what needs it, for the message.
      settings: further settings of Jinja2.

    Raises:
      UsageError: Jinja2 is not installed.
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
      template: a file of yt8m/data. It gets `script`, the text of report.js, and `hash_of_script`, by which the policy
        in the page's head allows this script alone.
      values: what else it gets.
    """
    script = (importlib.resources.files("yt8m") / "data" / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    trimming = environment("the report", trim_blocks=True, lstrip_blocks=True)
    return str(trimming.get_template(template).render(script=script, hash_of_script=digest, **values))
