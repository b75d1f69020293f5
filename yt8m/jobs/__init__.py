"""The jobs behind the programs: a config in, an exit status out."""
