"""The video workload: its modeler, transforms, teachers and evaluator. The engine itself knows nothing of videos."""
