"""The page at /docs: what the service takes and answers, from its own description, without scripts of others."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
_STYLE = (
    ":root{color-scheme:light dark;background:Canvas;color:CanvasText}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;padding:.75rem;border:1px solid #8886;border-radius:6px}"
    "pre{font-size:14px}"
    "summary{cursor:pointer}"
    "h2{margin-top:2rem}td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}"
)


def make_page(description: Mapping[str, Any]) -> str:
    """The page of a service; `description` is that of /openapi.json."""
    routes = "".join(
        part
        for path, methods in description["paths"].items()
        for method, route in methods.items()
        for part in _route(f"{method.upper()} {path}", route)
    )
    info = description["info"]
    title = html.escape(f"{info['title']} {info['version']}")
    shapes = _folded("their JSON schemas", description.get("components", {}).get("schemas", {}))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style><h1>{title}</h1>'
        f'<p>The same description for programs: <a href="openapi.json">openapi.json</a>.</p>{routes}'
        f"<h2>Answers</h2>{shapes}</html>"
    )


def _route(name: str, route: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h2>{html.escape(name)}</h2><p>{_text(route.get('description', ''))}</p>"
    for parameter in route.get("parameters", ()):
        yield f"<p><code>{html.escape(parameter['name'])}</code>: {_text(parameter.get('description', ''))}</p>"
    for kind, body in route.get("requestBody", {}).get("content", {}).items():
        command = f"curl -H 'Content-Type: {kind}' --data-binary @FILE ADDRESS{name.rpartition(' ')[2]}"
        if kind.startswith("multipart/"):
            command = f"curl -F video=@clip.mp4 ADDRESS{name.rpartition(' ')[2]}"
        yield _pre(command.replace("*", "mp4"))
        if kind == "application/json":
            yield _folded("the JSON schema of FILE", body["schema"])
    rows = "".join(
        f"<tr><th>{html.escape(status)}</th><td>{_text(answer['description'])}</td></tr>"
        for status, answer in route.get("responses", {}).items()
    )
    yield f"<table>{rows}</table>"


def _text(description: str) -> str:
    """A description, whose names in backticks become code."""
    return re.sub(r"`(.*?)`", r"<code>\1</code>", html.escape(description))


def _folded(summary: str, schema: Any) -> str:
    """A schema, which is long, below a line that unfolds it."""
    return f"<details><summary>{summary}</summary>{_pre(json.dumps(schema, indent=1))}</details>"


def _pre(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"
