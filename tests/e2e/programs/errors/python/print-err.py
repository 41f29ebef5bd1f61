import sys
print("Error: something went wrong: x", file=sys.stderr)
print("ValueError: fake", file=sys.stderr)
d = {}
d["x"]
