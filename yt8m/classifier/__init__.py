"""`yt8m.Classifier`: the interface of scikit-learn to a training, for videos with any number of labels."""

from yt8m.classifier.estimator import Classifier as Classifier
