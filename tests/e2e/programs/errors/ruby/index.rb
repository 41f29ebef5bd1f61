[1, 2].fetch(9)
