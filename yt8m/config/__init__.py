"""The configs of trainings and of programs that use a run, their fit to data and models, and the folder of a run."""
