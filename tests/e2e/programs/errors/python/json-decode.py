import json
def load(s):
    return json.loads(s)
load("{bad")
