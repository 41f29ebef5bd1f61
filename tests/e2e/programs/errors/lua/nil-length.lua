local t = {}
print(#t.items)
