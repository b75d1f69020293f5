"""The Python interface: `yt8m.fit` trains a model, `yt8m.load` opens a trained one, `yt8m.extract` computes features.

The module `commands` has what the other commands do.

`yt8m.read_records` is in `yt8m.records.batches`.

model = yt8m.load("runs/mine")
for video in model.predict("data/video/test/*.tfrecord", top_k=3):
    print(video.id, [(scored.name, scored.score) for scored in video.classes])
"""

from yt8m.python_api.commands import audit as audit
from yt8m.python_api.commands import evaluate as evaluate
from yt8m.python_api.commands import export_model as export_model
from yt8m.python_api.commands import extract as extract
from yt8m.python_api.commands import inspect as inspect
from yt8m.python_api.commands import list_runs as list_runs
from yt8m.python_api.commands import make_records as make_records
from yt8m.python_api.commands import report as report
from yt8m.python_api.commands import select as select
from yt8m.python_api.fitting import FittedRun as FittedRun
from yt8m.python_api.loaded_model import Model as Model
from yt8m.python_api.loaded_model import load as load
from yt8m.python_api.results import EvaluationReport as EvaluationReport
from yt8m.python_api.results import Predictions as Predictions
from yt8m.python_api.results import ResultRows as ResultRows
from yt8m.python_api.results import ScoredClass as ScoredClass
from yt8m.python_api.results import VideoPrediction as VideoPrediction
from yt8m.python_api.typed_fit import fit as fit
