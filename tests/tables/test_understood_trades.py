"""Tables as people of different trades have them: camera traps, recordings, museums, archives, YouTube, courses."""

from __future__ import annotations

import pathlib

import pytest
from table_files import SHORT, read, text_of, truth, write, write_json

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand

MADE = truth(SHORT)
SORTED = {video: sorted(labels) for video, labels in MADE.items()}
LATIN = {
    "cat": "Felis catus",
    "dog": "Canis lupus",
    "bird": "Parus major",
    "fox": "Vulpes vulpes",
    "otter": "Lutra lutra",
}
ROWS = [(n, k, video, label) for n, (video, labels) in enumerate(MADE.items()) for k, label in enumerate(labels)]


def test_camera_traps_name_media_and_species(tmp_path: pathlib.Path) -> None:
    header = ("observationID", "deploymentID", "mediaID", "observationType", "scientificName", "count")
    rows = [(f"o{n}{k}", f"d{n % 3}", video, "animal", LATIN[label], 1) for n, k, video, label in ROWS]
    expected = {video: sorted(LATIN[label] for label in labels) for video, labels in MADE.items()}
    assert read(write(tmp_path / "observations.csv", [header, *rows])) == expected


def test_an_observation_alone_is_the_id(tmp_path: pathlib.Path) -> None:
    rows = [(f"o{n}{k}", label) for n, k, _, label in ROWS]
    found = read(write(tmp_path / "t.csv", [("observation_id", "species"), *rows]))
    assert found == {name: [label] for name, label in rows}


@pytest.mark.parametrize("header", [("file", "scientific name", "common name"), ("file", "species", "scientific_name")])
def test_two_names_of_a_species_are_one_class(header: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    is_latin_first = header[1] == "scientific name"
    rows = [(video, *((LATIN[x], x) if is_latin_first else (x, LATIN[x]))) for _, _, video, x in ROWS]
    expected = {v: sorted(LATIN[x] if is_latin_first else x for x in labels) for v, labels in MADE.items()}
    assert read(write(tmp_path / "t.csv", [header, *rows])) == expected


def test_two_names_that_differ_are_asked_about(tmp_path: pathlib.Path) -> None:
    rows = [(video, LATIN[label], "animal" if k else label) for _, k, video, label in ROWS]
    with pytest.raises(UsageError, match=r"several columns .*labels: scientific_name, common_name"):
        read(write(tmp_path / "t.csv", [("file", "scientific_name", "common_name"), *rows]))


@pytest.mark.parametrize("other", ["taxon", "common_name", "scientificName", "dc.subject"])
@pytest.mark.parametrize("classes", [SHORT, SHORT[:2], tuple(f"is_{name}" for name in SHORT)])
def test_columns_of_classes_beat_species(other: str, classes: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    found = {video: sorted(n for n in classes if n.removeprefix("is_") in labels) for video, labels in MADE.items()}
    rows = [
        (video, ("Aves", "Mammalia")[k % 2], *(int(n in labels) for n in classes))
        for k, (video, labels) in enumerate(found.items())
    ]
    header = ("clip", other, *classes)
    assert read(write(tmp_path / "t.csv", [header, *rows])) == found
    assert read(write_json(tmp_path / "t.json", [dict(zip(header, row, strict=True)) for row in rows])) == found


def test_a_species_of_all_videos_is_no_label(tmp_path: pathlib.Path) -> None:
    rows = [(video, "Aves", ";".join(labels)) for video, labels in MADE.items()]
    assert read(write(tmp_path / "t.csv", [("file", "taxon", "animal"), *rows])) == SORTED
    rows = [
        (video, *(f"{n}.{k}" for k in range(3)), labels[0], "Aves") for n, (video, labels) in enumerate(MADE.items())
    ]
    found = read(write(tmp_path / "t.csv", [("file", "f1", "f2", "f3", "label_x", "taxon"), *rows]))
    assert found == {video: labels[:1] for video, labels in MADE.items()}


def test_species_beside_other_labels_are_asked_about(tmp_path: pathlib.Path) -> None:
    rows = [(video, ("Robin", "Wren")[n % 2], ";".join(x)) for n, (video, x) in enumerate(MADE.items())]
    with pytest.raises(UsageError, match="several columns may: common_name, sounds"):
        read(write(tmp_path / "t.csv", [("recording", "common_name", "sounds"), *rows]))


@pytest.mark.parametrize(
    "others",
    [
        ("user_login", "quality_grade", "license", "place_guess", "iconic_taxon_name"),
        ("Recordist", "Country", "State", "County", "Locality"),
        ("observationLevel", "cameraSetupType", "lifeStage", "sex", "locationName"),
    ],
)
def test_facts_of_an_observation_are_no_labels(others: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    rows = [(video, *("ab"[n % 2] * 3 for _ in others), LATIN[x[0]]) for n, (video, x) in enumerate(MADE.items())]
    found = read(write(tmp_path / "t.csv", [("file", *others, "scientific_name"), *rows]))
    assert found == {video: [LATIN[labels[0]]] for video, labels in MADE.items()}


def test_the_classes_of_a_table_may_be_capitals_of_ukrainian(tmp_path: pathlib.Path) -> None:
    classes = ("\u0422\u0406\u041d\u0406", "\u0421\u0406\u0420\u0406")
    rows = [(f"v{n}", n % 2, n // 2 % 2) for n in range(8)]
    path = write(tmp_path / "t.csv", [("id", *classes), *rows])
    assert read(path)["v3"] == sorted(classes)
    understand("--table", str(path), TableFlags()).refuse_combinations(set(classes))


def test_selections_of_raven(tmp_path: pathlib.Path) -> None:
    header = ("View", "Begin File", "Species")
    path = tmp_path / "t.txt"
    path.write_text(
        text_of([header, *(("Spectrogram 1", video, label) for _, _, video, label in ROWS)], delimiter="\t")
    )
    assert read(path) == SORTED


@pytest.mark.parametrize("names", [("dc:identifier", "dc:subject"), ("dc.identifier.uri", "dc.subject[en]")])
@pytest.mark.parametrize("separator", ["; ", "||"])
def test_dublin_core(names: tuple[str, str], separator: str, tmp_path: pathlib.Path) -> None:
    rows = [(f"http://hdl/{video}", f"Film {video}", separator.join(labels)) for video, labels in MADE.items()]
    path = write(tmp_path / "t.csv", [(names[0], "dc.title", names[1]), *rows])
    assert read(path) == {f"http://hdl/{video}": labels for video, labels in SORTED.items()}


@pytest.mark.parametrize("labels", ["tags", "class", "keywords"])
def test_other_names_beat_those_of_dublin_core(labels: str, tmp_path: pathlib.Path) -> None:
    rows = [(v, f"http://h/{v}", ";".join(x), ("art", "war")[n % 2]) for n, (v, x) in enumerate(MADE.items())]
    path = write(tmp_path / "t.csv", [("name", "dc.identifier", labels, "dc.subject"), *rows])
    assert read(path) == SORTED


@pytest.mark.parametrize("other", ["Evidence ID", "material_id", "assetRecordId"])
def test_titles_beside_ids_are_asked_about(other: str, tmp_path: pathlib.Path) -> None:
    rows = [(f"E{7 * n}", f"Film {video}", ";".join(labels)) for n, (video, labels) in enumerate(MADE.items())]
    path = write(tmp_path / "t.csv", [(other, "Title", "Categories"), *rows])
    with pytest.raises(UsageError, match=rf'"Title" .*or "{other}"'):
        read(path)
    assert read(path, columns=("id=Title",))["Film v00"] == SORTED["v00"]
    assert read(path, columns=(f"id={other}",))["E0"] == SORTED["v00"]


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ("owner_id", "Film {}"),
        ("annotator_id", "Film {}"),
        ("site_id", "Film {}"),
        ("task_id", "Film {}"),
        ("notes", "Film {}"),
        ("material_id", "{}.mp4"),
        ("material_id", "videos/{}"),
        *(
            (f"{word}_id", "Film {}")
            for word in ("patient", "subject", "speaker", "player", "artist", "label", "class")
        ),
    ],
)
def test_titles_beside_other_columns_are_ids(other: str, name: str, tmp_path: pathlib.Path) -> None:
    rows = [(f"E{7 * n}", name.format(v), ";".join(labels)) for n, (v, labels) in enumerate(MADE.items())]
    found = read(write(tmp_path / "t.csv", [(other, "name", "labels"), *rows]))
    assert found == {name.format(video): labels for video, labels in SORTED.items()}


def test_names_of_files_one_of_which_lacks_its_ending_are_ids(tmp_path: pathlib.Path) -> None:
    made = {video if n == 7 else f"{video}.mp4": labels for n, (video, labels) in enumerate(MADE.items())}
    rows = [(f"E{7 * n}", name, ";".join(labels)) for n, (name, labels) in enumerate(made.items())]
    found = read(write(tmp_path / "t.csv", [("evidence_id", "name", "tags"), *rows]))
    assert found == {name: sorted(labels) for name, labels in made.items()}


def test_titles_beside_a_number_of_the_row_are_ids(tmp_path: pathlib.Path) -> None:
    rows = [(n, f"Film {video}", ";".join(labels)) for n, (video, labels) in enumerate(MADE.items())]
    found = read(write(tmp_path / "t.csv", [("row_id", "title", "tags"), *rows]))
    assert found == {f"Film {video}": labels for video, labels in SORTED.items()}


def test_files_in_a_column_of_names_are_paths(tmp_path: pathlib.Path) -> None:
    rows = [(f"P-{n}", f"{video}.npy", ";".join(labels)) for n, (video, labels) in enumerate(MADE.items())]
    path = write(tmp_path / "t.csv", [("Issue key", "Name", "Labels"), *rows])
    assert read(path)["P-0"] == SORTED["v00"]


def test_videos_of_youtube_without_tags_have_no_labels(tmp_path: pathlib.Path) -> None:
    made = truth(SHORT, fewest=0)
    items = [
        {"id": video, "snippet": {"title": f"T {video}", **({"tags": labels} if labels else {})}}
        for video, labels in made.items()
    ]
    path = write_json(tmp_path / "t.json", {"kind": "youtube#videoListResponse", "items": items})
    assert read(path) == {video: sorted(labels) for video, labels in made.items()}


def test_criteria_that_are_met_are_classes(tmp_path: pathlib.Path) -> None:
    rows = [(video, *("met" if name in labels else "not met" for name in SHORT)) for video, labels in MADE.items()]
    assert read(write(tmp_path / "t.csv", [("video", *SHORT), *rows])) == SORTED
