import re
m = re.match("a", "b")
print(m.group(0))
