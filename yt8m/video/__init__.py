"""The video workload: its modeler, transforms, teachers and evaluator. The engine has no code about videos."""
