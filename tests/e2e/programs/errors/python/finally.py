try:
    raise KeyError("first")
finally:
    1 / 0
