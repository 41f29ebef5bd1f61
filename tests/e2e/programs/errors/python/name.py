counter = 1
print(countre + 1)
