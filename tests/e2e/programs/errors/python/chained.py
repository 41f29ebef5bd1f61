def f():
    try:
        {}["a"]
    except KeyError as e:
        raise RuntimeError("wrapped\nover two lines") from e
f()
