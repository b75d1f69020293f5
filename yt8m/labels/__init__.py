"""`yt8m audit` finds wrong labels, `yt8m select` chooses videos to label, `yt8m count` counts videos of each class."""
