def find(x):
    pass
r = find(1)
print(r[0])
