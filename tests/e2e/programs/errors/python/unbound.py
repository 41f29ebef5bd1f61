n = 1
def f():
    n += 1
f()
