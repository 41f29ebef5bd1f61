def parse(text):
    return int(text)

print(parse("12"))
print(parse("x12"))
