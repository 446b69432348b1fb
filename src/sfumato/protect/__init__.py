"""Release methods: one module each, all behind ``methods()`` and ``get(name)``."""
