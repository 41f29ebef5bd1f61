File.read("missing.txt")
