total = 0
for x in [1, "2"]:
    total = total + x
