"""Settings: defaults, then the stage's file, then the environment."""

import os
import tomllib


def load(directory="config"):
    """Return the settings of the stage that UPLOADS_STAGE names."""
    settings = {}
    for name in ["base", os.environ.get("UPLOADS_STAGE", "testing")]:
        with open(f"{directory}/{name}.toml", "rb") as file:
            for section, values in tomllib.load(file).items():
                settings.setdefault(section, {}).update(values)
    for section, values in settings.items():
        for key in values:
            variable = f"UPLOADS_{section}_{key}".upper()
            if variable in os.environ:
                values[key] = type(values[key])(os.environ[variable])
    return settings
