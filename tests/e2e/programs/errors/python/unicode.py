b = b"\xff\xfe"
b.decode("utf-8")
