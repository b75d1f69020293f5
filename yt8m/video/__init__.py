"""The video workload: its modeler, transforms, teachers and evaluator, for the engine, which knows nothing of videos."""
