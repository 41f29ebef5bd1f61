items = [3, "a", None]
def key(x):
    return x + 1
print(sorted(items, key=key))
