local n = tonumber("abc")
print(n + 1)
