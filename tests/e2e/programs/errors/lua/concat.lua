local name
print("hello " .. name)
