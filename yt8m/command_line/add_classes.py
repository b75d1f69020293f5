"""`yt8m add-classes`: makes a run of a trained run and of data with more classes; see `training.class_growth`."""

from __future__ import annotations

from yt8m.command_line import flags, program
from yt8m.training.class_growth_config import AddClassesConfig


def main(argv: list[str]) -> int:
    """Trains the new classes and measures all; returns the exit status."""
    purpose = "Adds the classes of new data to a trained model, and says what that cost the classes it had."
    config = flags.read(AddClassesConfig, "yt8m add-classes", purpose, argv)
    program.set_up_log()
    if config.from_text:
        from yt8m.training import text_growth  # loads TensorFlow, which flag errors do not need

        return text_growth.run(
            config.model, config.from_text, config.template, config.out, trust_code=config.trust_code
        )
    training = flags.train_config(config.training_words())
    from yt8m.training import class_growth  # loads the graph code, which flag errors do not need

    return class_growth.run(config, training)
