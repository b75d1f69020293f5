"""The Python interface: `yt8m.fit` trains a model, `yt8m.load` opens a trained one, `yt8m.extract` computes features.

`yt8m.read_records` is in `yt8m.records.batches`.

model = yt8m.load("runs/mine")
for video in model.predict("data/video/test/*.tfrecord", top_k=3):
    print(video.id, [(scored.name, scored.score) for scored in video.classes])
"""

from yt8m.python_api.feature_extraction import extract as extract
from yt8m.python_api.fitting import FittedRun as FittedRun
from yt8m.python_api.loaded_model import Model as Model
from yt8m.python_api.loaded_model import ScoredClass as ScoredClass
from yt8m.python_api.loaded_model import VideoPrediction as VideoPrediction
from yt8m.python_api.loaded_model import load as load
from yt8m.python_api.typed_fit import fit as fit
