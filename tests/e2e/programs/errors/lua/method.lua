local s = {}
s:run()
