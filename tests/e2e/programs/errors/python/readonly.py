open("/usr/x.txt", "w")
