"""Finding where the first NaN or infinity came from, without waiting for the device in a step."""
