"""What a run is asked for: options, the configs made of them, the flags, and the folder of a run."""
