try:
    int("a")
except ValueError as e:
    e.add_note("while reading")
    raise
