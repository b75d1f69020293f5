"""Models as files: SavedModels, small weights, model cards and archives."""
