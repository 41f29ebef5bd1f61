with open("missing.txt") as f:
    print(f.read())
