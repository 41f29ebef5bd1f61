local t = {}
print(string.rep(t, 2))
