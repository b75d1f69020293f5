"""Models as files: SavedModels, inference models, ONNX files, web pages, ensembles, derived runs and model cards."""
