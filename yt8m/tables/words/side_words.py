"""Names of columns that stand beside labels and are none: places, people, programs, scores, boxes, verdicts, remarks.

`meanings` has the names of ids, paths, labels, splits and times.
"""

from __future__ import annotations

import re

from yt8m.tables.words import normalized, word_set

# Names of where, when, how or by whom a video was made or labelled.
_PLACES = word_set(
    "fold folds kfold cv_fold batch version seed station site location camera cam device sensor channel mic "
    "microphone recorder session round trial week weekday group cluster cohort transect phase source origin "
    "annotator annotators rater worker coder labeler labeller expert reviewer observer operator user author owner "
    "partition subset split series sequence format codec lang language region country zone lab project campaign "
    "chunk bucket shard archive collection gender age cv hold_out holdout gps visit hour month year"
)
# Words that say so in any name, such as `speaker gender`; a station may be one for trains.
_SURE_WORDS = word_set(
    "fold folds kfold cv batch version annotator rater worker coder labeler labeller reviewer observer gender "
    "cohort subset partition shard seed cam mic recorder"
)
_NUMBERED = re.compile(r"(.+?)_?(?:\d+|_[a-z])")  # as in `cam1`, `site_b`
_ENDING = re.compile(r".+_(id|ids|nr|version|fold|batch|seed|index|idx)")
# What other columns of 0 and 1 say of a video, or of the work on it.
SIDE_FACTS = word_set(
    "weight weights consent license licence quality difficulty rating score vote votes count total sum length "
    "duration size priority type kind mode status state qc qa use used useful usage keep kept selected sample "
    "sampled valid validated pass passed complete completed finished todo final draft approved rejected accepted "
    "agree agreed confirmed pilot treatment control target index idx number num no nr row order rank id level "
    "tier grade hidden gold bad good n i conf multi visible available missing error errors corrupt readable "
    "processed exported uploaded trimmed test_set train_set training validation testing holdout comment remark"
)
# Words of which one in a name is enough to say so.
SURE_REMARKS = word_set(
    "valid usable used quality annotation consent license recorded annotated labeled labelled reviewed checked "
    "verified confirmed approved coded uploaded downloaded processed duplicate"
)
# Columns that Mechanical Turk and Label Studio add to those of the user.
OF_PROGRAMS = word_set(
    "hit_id hitid hittype_id hit_type_id assignment_id worker_id assignment_status auto_approval_time "
    "annotation_id annotator_id task_id lead_time created_at updated_at"
)
# Columns of the work of annotation, which have no labels whatever their cells are.
BOOKKEEPING = word_set(
    "annotation_id annotator annotators created_at updated_at lead_time task_id annotated_by timestamp date time url"
)
# Columns of the people who answered: each of them may give a video the same label.
PEOPLE = word_set(
    "annotator annotator_id annotator_name annotated_by rater rater_id worker worker_id assigned_worker_id coder "
    "labeler labeller labeler_id labeled_by labelled_by completed_by expert_id"
)
SCORES = frozenset(["confidence", "score", "scores", "probability", "prob", "relevance", "weight"])
# Columns of boxes: rows with them may repeat a label, since a picture shows several cats.
BOXES = frozenset(["xmin", "x_min", "x1", "left", "bbox", "box", "x_center", "xc", "cx"])
# Columns of numbers and facts of a row that say nothing of whether its label is right: boxes, numbers of rows, and
# facts of a box in Open Images, Pascal VOC and COCO.
HARMLESS = word_set(
    "x y w h z x1 x2 y1 y2 xmin xmax ymin ymax x_min x_max y_min y_max left right top bottom width height bbox "
    "box area cx cy xc yc x_center y_center rotation angle lat lon latitude longitude temp temperature altitude "
    "elevation hour minute second month year day is_occluded is_truncated is_group_of is_depiction is_inside "
    "occluded truncated difficult iscrowd is_crowd crowd index idx rank order position pos line row frame frames "
    "instance track page level depth"
)
# Columns that may say of each label of a video whether it is right, in words that are not known.
VERDICTS = word_set(
    "answer response verdict status checked correct is_correct approved accepted confirmed rejected is_rejected "
    "negative is_negative wrong is_wrong votes vote deleted is_deleted removed is_removed excluded invalid "
    "is_invalid valid is_valid_label keep yes no yes_votes no_votes upvotes downvotes n_yes n_no agree disagree"
)
# Of these, names that say something of the work on a table, where each video has one row.
REMARKS_ON_VIDEOS = word_set("checked valid votes vote response keep")
# Columns about the label of a row, whatever the ids: each video of a table may have been asked about one label.
OF_LABELS = word_set(
    "detected observed visible exists polarity relevant seen found occurs occurred heard shown appears absent "
    "negative is_negative rejected is_rejected wrong is_wrong incorrect is_incorrect is_visible is_observed "
    "is_detected label_ok label_correct label_is_correct is_label_correct label_valid label_right qa qa_result "
    "qa_status qc qc_result quality_check review review_result review_status korrekt ist_korrekt richtig "
    "ist_richtig correcto es_correcto correcta corretto correto juste pass_fail is_right right right_or_wrong"
)
# Columns that only tables of `yt8m select` have; none of them says anything of labels.
SELECTION = frozenset(["rank", "value", "distance"])
# Columns that say yes or no of the label of a row, and are read so.
VALUE_NAMES = word_set(
    "confidence score probability prob value present is_present presence relevance positive is_positive answer "
    "response verdict correct is_correct approved accepted confirmed"
)
# Columns of numbers between those of classes that are no votes on them.
NO_VOTES = word_set("fold folds kfold cv_fold total sum n_labels num_labels n_classes count")
# Columns of what people marked in a video, whose labels stand within.
MARKED_THINGS = word_set("instances objects regions annotations detections segments shapes boxes results predictions")
# How names of columns say that their labels are the corrected ones of another column.
REVISED = word_set("corrected correct new final clean cleaned verified reviewed fixed revised updated gold v2")
# How they say that their labels are those of other people, or of a model, which may differ.
OF_OTHERS = word_set(
    "true given gt truth consensus original orig noisy predicted prediction pred initial majority adjudicated "
    "old auto machine suggested"
)
# Whole names that say so.
OTHER_READINGS = word_set(
    "ground_truth groundtruth gt truth corrected correction prediction predicted consensus pred y_true y_pred"
)
# How the names of Dublin Core begin, as `normalized` writes them; they say less than others of the same meaning.
DUBLIN_CORE = ("dc_", "dcterms_")
# What tables of species say of an observation, beside ids and places.
_OF_OBSERVATIONS = word_set(
    "observation_type observation_level life_stage sex basis_of_record kingdom phylum order family genus taxon_rank "
    "classification_method classified_by camera_setup_type county state province state_province country_code locality "
    "recordist recorded_by identified_by institution_code collection_code license geoprivacy user_login user_name "
    "quality_grade location_name place_guess species_guess iconic_taxon_name time_zone captive_cultivated"
)
_TITLED = word_set("evidence material asset exhibit")  # what has a title, and an id by which people call it


def is_of_observation(word: str) -> bool:
    """Whether a name, as `normalized` writes it, says where, how or of what kind of animal an observation is."""
    return word in _OF_OBSERVATIONS or is_place(word)


def is_id_of_titled(word: str) -> bool:
    """Whether a name, as `normalized` writes it, is that of ids of things with a title, such as `evidence_id`."""
    return word.endswith("_id") and not _TITLED.isdisjoint(word.split("_"))


def is_of_program(name: str) -> bool:
    """Whether a program for annotation has added a column to those of the user."""
    return normalized(name) in OF_PROGRAMS


def without_number(word: str) -> str:
    """A name, as `normalized` writes it, without a number or letter at its end, as in `cam1` and `site_b`."""
    return match[1] if (match := _NUMBERED.fullmatch(word)) else word


def is_place(word: str) -> bool:
    """Whether a name, as `normalized` writes it, says where, when or by whom a video was made or labelled."""
    base = without_number(word)
    return base in _PLACES or not _SURE_WORDS.isdisjoint(base.split("_")) or _ENDING.fullmatch(word) is not None
