def check(x):
    assert x > 0, "must be positive"
check(-1)
