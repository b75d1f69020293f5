"""The pages' templates, with the script that sorts and searches their tables."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from typing import Any


def render(template: str, **values: Any) -> str:
    """The text of a page; needs Jinja2.

    Args:
      template: a file of yt8m/data. It gets `script`, the text of report.js, and `hash_of_script`, by which the policy
        in the page's head allows this script alone.
      values: what else it gets.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("yt8m", "data"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (importlib.resources.files("yt8m") / "data" / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(template).render(script=script, hash_of_script=digest, **values)
