local a = "abc"
print(a + 1)
