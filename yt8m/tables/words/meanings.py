"""What the columns of a table mean, by their names: id, path, labels, split, start and end.

Case, blanks and signs do not matter: `Video ID`, `videoId` and `video_id` are one name. Names that come first in a list
are taken first.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from yt8m.tables.words import normalized, word_set, words
from yt8m.tables.words.class_names import FALSE_WORDS, TRUE_WORDS, is_nothing
from yt8m.tables.words.time_columns import meaning_of_time

# The types of results of Label Studio whose values name classes, and the key of these names in the value.
CLASS_TYPES = words(
    "choices taxonomy labels timelinelabels hypertextlabels paragraphlabels timeserieslabels rectanglelabels "
    "polygonlabels ellipselabels keypointlabels brushlabels videorectangle"
)

# The values of --columns: what a column means; `present` says whether the video has the label of the row, and `unused`
# names the columns that mean nothing.
MEANINGS = ("id", "path", "labels", "split", "start", "end", "present", "unused")
JOIN = "+"  # between several columns of one meaning in --columns
NUMBERED = re.compile(r"(.*?)[ _.\-\[]*(\d+)\]?")  # a name with a number, as columns of one kind have it
INVENTED = "column "  # the beginning of the names of columns of a table without a header

_ID_NAMES = words(
    "id video_id videoid vid video video_name clip_id clip clip_name youtube_id ytid yt_id file_name filename "
    "fname file slice_file_name image_id imageid image_name image img img_id img_name audio_id audio "
    "recording recording_id sample_id sample sample_name track_id track item_id item_name item media_id media "
    "asset asset_id tconst movie movie_id film_id external_id data_id segment_id uid uuid guid key "
    "ids video_ids clip_ids file_names filenames names vid_name observation_id media_file_name sample_key image_index "
    "image_url video_url media_url audio_url url uri source_file video_file movie_file source_ref "
    "input_video_url input_image_url input_audio_url imdb_id imdbid tmdb_id tmdbid "
    "datei dateiname vidéo vídeo bild fichier nom_fichier fichero archivo nombre_archivo arquivo plik bestand файл "
    "видео 文件 文件名 视频 ファイル ファイル名 動画 파일 "
    "video_uid video_uuid video_guid clip_uid clip_uuid issue_key card_id begin_file begin_path in_file "
    "ml_catalog_number dc_identifier dc_identifier_uri"
)
# What biologists call the classes of animals and plants, in tables without another column of labels.
SPECIES_NAMES = word_set("scientific_name common_name vernacular_name taxon taxon_name")
_PATH_NAMES = words(
    "path feature_path features_path feat_path filepath file_path feature_file features_file npy npy_path "
    "npy_file embedding_path video_path audio_path image_path rel_path relpath"
)
_LABELS_NAMES = words(
    "labels label tags tag classes class class_name classname class_names categories category genres genre "
    "label_name labelname label_names label_s display_name display_names targets target positive_labels "
    "class_label class_labels topics topic keywords keyword concepts concept species actions action "
    "tag_ids tag_id genre_ids genre_id topic_ids "
    "activities activity attribute_ids label_ids label_id category_id category_ids class_ids class_id classid "
    "choices choice annotations annotation ground_truth gt truth multi_label multilabel event_label "
    "event_labels sound_class behavior behaviour y cls lbl lbls "
    "schlagwort schlagwörter schlagworte klasse klassen kategorie kategorien etikett etiketten "
    "étiquette étiquettes etiquette etiquettes classe mot_clé mots_clés catégorie catégories étiqueta etiqueta "
    "etiquetas clase clases categoría categorías rótulo rótulos etichetta etichette categoria categorie "
    "метка метки теги класс 标签 类别 ラベル タグ 라벨 dc_subject dc_subject_en dcterms_subject"
)
_SPLIT_NAMES = words(
    "split subset is_valid is_validation valid is_val is_test is_train in_valid in_validation in_val in_test in_train "
    "partition usage phase data_split "
    "dataset_split split_name set tvt data_type"
)
_NAMES = {"id": _ID_NAMES, "path": _PATH_NAMES, "labels": _LABELS_NAMES, "split": _SPLIT_NAMES}
# {column of a small table, such as one of decisions: other names that it may have, the surest first}
_OTHER_NAMES = {
    "class": ("name", "class_name", "label_name", "display_name", *_LABELS_NAMES, "index", "class_index", "number"),
    "name": ("class", "class_name", "label_name", "display_name", *_LABELS_NAMES),
    "video": _ID_NAMES,
    "weight": words("weights class_weight class_weights label_weight factor gewicht poids peso"),
    "prompt": words("prompts text texts description descriptions caption sentence"),
    "old": words("from before old_name old_class old_label alt"),
    "new": words("to after new_name new_class new_label neu"),
    "address": words("url urls link links href uri media_url video_url address_url media address path file_path"),
    "kind": words("type finding"),
    "decision": words("decisions answer verdict entscheidung"),
    "threshold": words("thresholds cutoff cut_off"),
    "index": words("class_index class_id class_number label_id category_id number idx"),
    "videoid": _ID_NAMES,
    "labelconfidencepairs": words("labelconfidencepairs label_confidence_pairs predictions scores"),
    "segments": words("segment"),
}
_MEANING_OF = {name: (meaning, rank) for meaning, names in _NAMES.items() for rank, name in enumerate(names)}
# The last word of a column such as `movie genres` or `true_label` says that it holds labels.
_LABEL_WORDS = word_set("labels label tags tag classes class categories category genres genre")
_COUNT_WORDS = word_set("n num nb no number count total")  # how names such as `n_labels` begin
_LAST_RANK = 1000
VAGUE_RANK = _LAST_RANK - 1  # from this rank on, a part of the name alone says the meaning

TRAIN, VALIDATE, TEST = words("train validate test")  # the names that --splits has by default
_SPELLINGS = {
    TRAIN: words("train training trn tr learn"),
    VALIDATE: words("validate valid validation val dev development"),
    TEST: words("test testing tst eval evaluation holdout"),
}
# {a word for a split, in lower case: the name of the split}
SPLIT_WORDS = {word: name for name, spellings in _SPELLINGS.items() for word in spellings}
# {name of a column of true and false: (the split of true, the split of false)}
_SPLIT_FLAGS = {
    **dict.fromkeys(words("is_valid is_validation valid is_val in_valid in_validation in_val"), (VALIDATE, TRAIN)),
    **dict.fromkeys(words("is_test in_test"), (TEST, TRAIN)),
    **dict.fromkeys(words("is_train in_train"), (TRAIN, VALIDATE)),
}
# Columns of true and false about a file, or about the work on a table, which are no classes.
_REMARKS = word_set(
    "verified checked reviewed done skip skipped ok flag flagged correct cancelled active enabled public cc esc10 "
    "hd uhd duplicate duplicated exclude excluded include included usable starred favorite favourite deleted "
    "private downloaded licensed monetized labeled labelled annotated"
)
_REMARK = re.compile(r"(?:verified|checked|reviewed|flagged|skipped)_(?:by|at|on|for|in)_.*")
# What a file has or is, after `has_` and `is_`, beside splits and remarks: `has_audio`, `is_valid`.
_OF_FILES = word_set(
    "audio sound video subtitle subtitles caption captions metadata thumbnail license label labels tag tags "
    "annotation annotations valid complete available occluded truncated group_of depiction inside"
)


@functools.lru_cache(4096)  # the same names are looked at as each dialect of CSV, and for each meaning
def meaning_of(name: str) -> tuple[str, int] | None:
    """(meaning, rank) of a column by its name; the lower the rank, the surer. None if the name says nothing."""
    word = normalized(name)
    if word in _MEANING_OF:
        return _MEANING_OF[word]
    if time := meaning_of_time(word):
        return time
    form = re.match(r"(?:input|output|answer)_(.+)", word)  # as crowdsourcing programs call questions and answers
    if form and form[1] in _MEANING_OF:
        return _MEANING_OF[form[1]][0], VAGUE_RANK
    if word.partition("_")[0] in _COUNT_WORDS:
        return None
    bare = re.sub(r"_?\d+$", "", word)  # label_1, label_2 and tag3 are columns of labels too
    last = bare.rpartition("_")[2]
    return ("labels", _LAST_RANK) if last in _LABEL_WORDS else None


def plain_meaning(name: str) -> str:
    """The meaning of a column by its name; empty if the name says nothing."""
    return (meaning_of(name) or ("",))[0]


def columns_flag(meaning: str, columns: Sequence[str]) -> str:
    """The flag that says which columns have a meaning, as a shell takes it."""
    value = f"{meaning}={JOIN.join(columns)}"
    return f"--columns={value}" if re.fullmatch(r"[\w.+/:=-]*", value) else f"--columns='{value}'"


def is_of_labels(name: str) -> bool:
    """Whether the name of a column says that it holds labels."""
    return plain_meaning(name) == "labels"


def is_column_name(word: str) -> bool:
    """Whether a word in lower case is a usual name of a column of ids, paths, labels or splits."""
    return word in _MEANING_OF


def other_names(name: str) -> tuple[str, ...]:
    """Further names of a column of a small table, such as `url` for `address`, as `normalized` writes them."""
    return _OTHER_NAMES.get(name.lower(), ())


def is_label_word(text: str) -> bool:
    """Whether a text, such as the common beginning of the names of columns, is a word for labels."""
    return normalized(text) in _LABEL_WORDS or normalized(text) in ("target", "targets", "y")


def is_remark(name: str) -> bool:
    """Whether a column of true and false says something about the row, and is no class: `is_cc`, `verified`."""
    word = normalized(name)
    prefix, _, fact = word.partition("_")
    is_fact = prefix in ("is", "in", "has", "was") and fact in _REMARKS | _OF_FILES | SPLIT_WORDS.keys() | {""}
    return word in _REMARKS or is_fact or _REMARK.fullmatch(word) is not None


def count_known(names: list[str]) -> int:
    """The number of different meanings that the names of columns have."""
    return len({meaning_and_rank[0] for meaning_and_rank in map(meaning_of, names) if meaning_and_rank})


def split_name(column: str, cell: Any) -> str:
    """The name of the split that a cell means, such as `validate` for `val`; the cell itself if it is no known word.

    Args:
      cell: the cell; None if it is empty.
    """
    text = "" if is_nothing(cell) else str(cell).strip()
    word = text.lower()
    flags = _SPLIT_FLAGS.get(normalized(column))
    if flags and word in TRUE_WORDS | FALSE_WORDS:
        return flags[word in FALSE_WORDS]
    return SPLIT_WORDS.get(word, text)
