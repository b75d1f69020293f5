"""At how many pictures a second networks of clips were trained: their configurations do not say it."""

from __future__ import annotations

USUAL = 8.0  # of families that are not listed
_KINETICS = 30.0  # pictures a second of most videos of Kinetics, whose strides the papers give in pictures
_TIMESFORMER_STRIDES = {8: 32, 16: 16, 96: 4}


def training_rate(family: str, frames: int) -> float:
    """The pictures a second of the clips that a family of networks was trained on; `USUAL` if that is not known.

    Sources:
      vjepa2: Assran et al. 2025, V-JEPA 2: clips at 4 pictures a second.
      videomae: Tong et al. 2022, VideoMAE: on Kinetics every fourth picture.
      timesformer: Bertasius et al. 2021, Is Space-Time Attention All You Need for Video Understanding?: 8, 16 or 96
        pictures, every 32nd, 16th or fourth one.
      vivit: Arnab et al. 2021, ViViT: 32 pictures, every second one.

    Args:
      family: `model_type` in the network's configuration.
      frames: pictures of a clip.
    """
    strides = {"videomae": 4, "vivit": 2, "timesformer": _TIMESFORMER_STRIDES.get(frames, 32)}
    if family == "vjepa2":
        return 4.0
    return _KINETICS / strides[family] if family in strides else USUAL
