"""The video workload: its modeler, transforms, teachers and evaluator, for the engine that knows no videos."""
