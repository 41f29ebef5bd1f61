print(("Hello, %s!"):format(arg[1] or "world"))
