"""At how many pictures a second networks of clips were trained: their configurations do not say it."""

from __future__ import annotations

USUAL = 8.0  # of families that are not listed
_TIMESFORMER_STRIDES = {8: 32, 16: 16, 96: 4}


def training_rate(family: str, frames: int) -> float:
    """The pictures a second of the clips that a family of networks was trained on; `USUAL` if that is not known.

    Sources are the training configurations in the repositories of the authors:
      vjepa2: facebookresearch/vjepa2, configs/train/*: fps 4, before and after the cooldown.
      videomae: MCG-NJU/VideoMAE, scripts/kinetics/*/pretrain.sh: every fourth picture of a file; most videos of
        Kinetics have 30 pictures a second. (On Something-Something, with 12 a second, it is every second one.)
      timesformer: facebookresearch/TimeSformer, configs/Kinetics: 8, 16 or 96 pictures, every 32nd, 16th or fourth one,
        of videos that are read at 30 pictures a second.
      vivit: google-research/scenic, projects/vivit/configs/kinetics400/vivit_base_k400.py: every second picture of
        videos of 250 pictures in ten seconds.

    Args:
      family: `model_type` in the network's configuration.
      frames: pictures of a clip.
    """
    rates = {"vjepa2": 4.0, "videomae": 30 / 4, "vivit": 25 / 2}
    return 30 / _TIMESFORMER_STRIDES.get(frames, 32) if family == "timesformer" else rates.get(family, USUAL)
