d = {"name": 1}

d["nmae"]
