"""Chooses the version of the rules of ids, rows and times for an extraction: records that exist keep theirs."""

from __future__ import annotations

from yt8m import storage
from yt8m.datasets.extract.extract_config import ExtractConfig
from yt8m.errors import UsageError
from yt8m.extractors import sampling_rules
from yt8m.records import manifest
from yt8m.records.data_format import LEVELS


def choose_rules(config: ExtractConfig) -> int:
    """The version of the rules: `config.rules`, or else that of the records in `config.out`, or else the newest."""
    made = {level: version for level in LEVELS if (version := _version_at(config.out, level))}
    staying = {level: version for level, version in made.items() if not (config.overwrite and level in config.level)}
    for level, version in staying.items():
        if config.rules not in (0, version):
            raise UsageError(
                f"--rules={config.rules}: {storage.join(config.out, level)} was made by version {version} of the rules "
                "of ids, rows and times, and a data set has one. Leave out --rules, or name another folder as --out."
            )
    return config.rules or next(iter({**made, **staying}.values()), sampling_rules.NEWEST)


def _version_at(out: str, level: str) -> int:
    """The version by which the records of a level were made; 0 if there are none."""
    for path in storage.glob_in(storage.join(out, level), "*", manifest.NAME):
        for entry in manifest.read(path).extractors:
            return sampling_rules.version_of(sampling_rules.rule_of_entry(entry))
    return 0
