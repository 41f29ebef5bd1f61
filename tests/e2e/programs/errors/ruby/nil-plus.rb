h = {}
h[:count] += 1
