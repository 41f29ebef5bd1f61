import re
re.compile("(")
